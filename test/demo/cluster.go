package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/remotecommand"
)

// cluster holds the clients for the demo's cluster.
type cluster struct {
	kubernetes.Interface
	meta   metadata.Interface
	config *rest.Config
}

// connect reads only $KUBECONFIG, so that the demo never runs by accident on the cluster of a default kubeconfig.
func connect() (*cluster, error) {
	path := os.Getenv(clientcmd.RecommendedConfigPathEnvVar)
	if path == "" {
		return nil, errors.New("KUBECONFIG is not set. Set it to the kubeconfig of the cluster for the demo")
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig %s: %w", path, err)
	}
	config.QPS, config.Burst, config.UserAgent = 100, 200, "drydock-demo"
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	meta, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for metadata: %w", err)
	}
	return &cluster{Interface: clients, meta: meta, config: config}, nil
}

// exec runs a script in the writer's container and returns its output.
func (c *cluster) exec(ctx context.Context, namespace, pod, script string, args ...string) (string, error) {
	request := c.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name(pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{
			Container: containerName, Stdout: true, Stderr: true,
			Command: append([]string{"/bin/sh", "-c", script, "script"}, args...),
		}, scheme.ParameterCodec)
	websocket, err := remotecommand.NewWebSocketExecutor(c.config, "GET", request.URL().String())
	if err != nil {
		return "", fmt.Errorf("preparing a command in pod %s: %w", pod, err)
	}
	spdy, err := remotecommand.NewSPDYExecutor(c.config, "POST", request.URL())
	if err != nil {
		return "", fmt.Errorf("preparing a command in pod %s: %w", pod, err)
	}
	executor, err := remotecommand.NewFallbackExecutor(websocket, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	if err != nil {
		return "", fmt.Errorf("preparing a command in pod %s: %w", pod, err)
	}
	var stdout, stderr bytes.Buffer
	if err := executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &stdout, Stderr: &stderr}); err != nil {
		return "", fmt.Errorf("running a command in pod %s: %w: %s", pod, err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// pollPeriod is the time between two checks of waitFor.
const pollPeriod = 250 * time.Millisecond

// permanentError is an error that no waiting can resolve.
type permanentError struct{ error }

// waitFor polls until pending returns an empty text. The text names what is still missing, for the error after the time limit.
func waitFor(ctx context.Context, limit time.Duration, pending func(context.Context) (string, error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	last := "the API server has not answered"
	for {
		what, err := pending(ctx)
		switch {
		case errors.As(err, new(permanentError)):
			return err
		case err == nil && what == "":
			return nil
		case err == nil:
			last = what
		case ctx.Err() == nil:
			last = err.Error()
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return fmt.Errorf("waited for %s: %s", limit, last)
			}
			return context.Cause(ctx)
		case <-time.After(pollPeriod):
		}
	}
}

// ready reports whether the pod serves. A pod that is being deleted does not, because Services ignore it.
func ready(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil {
		return false
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// notReady explains why some replicas are not ready. The text is empty if all are.
func (c *cluster) notReady(ctx context.Context, namespace string) (string, error) {
	pods, err := c.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + setName})
	if err != nil {
		return "", fmt.Errorf("listing pods: %w", err)
	}
	count, detail := 0, ""
	for i := range pods.Items {
		if ready(&pods.Items[i]) {
			count++
		} else if detail = ": " + notReadyReason(&pods.Items[i]); crashed(&pods.Items[i]) {
			return "", permanentError{fmt.Errorf("pod %s failed: %s", pods.Items[i].Name, c.logTail(ctx, &pods.Items[i]))}
		}
	}
	if count == replicas {
		return "", nil
	}
	return fmt.Sprintf("%d of %d replicas are ready%s", count, replicas, detail), nil
}

// notReadyReason returns the reason that the kubelet or the scheduler gives for a pod that is not ready.
func notReadyReason(pod *corev1.Pod) string {
	for _, s := range pod.Status.ContainerStatuses {
		if s.State.Waiting != nil {
			return strings.TrimSpace(fmt.Sprintf("pod %s waits: %s %s", pod.Name, s.State.Waiting.Reason, s.State.Waiting.Message))
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Status == corev1.ConditionFalse && c.Message != "" {
			return fmt.Sprintf("pod %s: %s", pod.Name, c.Message)
		}
	}
	return fmt.Sprintf("pod %s is %s", pod.Name, pod.Status.Phase)
}

// crashed reports whether a container ended by itself. The writer's container never does.
func crashed(pod *corev1.Pod) bool {
	for _, s := range pod.Status.ContainerStatuses {
		if s.RestartCount > 0 || s.State.Terminated != nil && pod.DeletionTimestamp == nil {
			return true
		}
	}
	return false
}

// logTail returns the end of the log of a crashed pod.
func (c *cluster) logTail(ctx context.Context, pod *corev1.Pod) string {
	some := int64(5)
	for _, previous := range []bool{false, true} {
		text, err := c.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{TailLines: &some, Previous: previous}).DoRaw(ctx)
		if words := strings.TrimSpace(string(text)); err == nil && words != "" {
			return words
		}
	}
	return "its log is empty; run kubectl describe pod " + pod.Name
}
