package idletimeout

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/exec"

	"drydock.dev/shared/api"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/sts"
)

// prober asks whether somebody uses a set. Whatever it cannot find out is an error, never "idle".
type prober struct {
	client     *kube.Client
	http       *http.Client
	prometheus string
}

// mostAnswer bounds the answer to a probe in bytes.
const mostAnswer = 1 << 20

func newProber(client *kube.Client, settings api.Settings) *prober {
	// A redirect could lead anywhere, and a proxy is not where pods are.
	return &prober{client: client, prometheus: settings.Prometheus, http: &http.Client{
		Timeout:       settings.ProbeTimeout,
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func (p *prober) ask(ctx context.Context, set *appsv1.StatefulSet, probe idle.Probe) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, p.http.Timeout)
	defer cancel()
	if probe.Kind == idle.ProbePrometheus {
		return p.askPrometheus(ctx, probe.Query)
	}
	pods, err := p.pods(ctx, set)
	if err != nil {
		return false, err
	}
	for _, pod := range pods {
		ask := p.askHTTP
		if probe.Kind == idle.ProbeTCP {
			ask = p.askTCP
		}
		if active, err := ask(ctx, pod, probe); active || err != nil {
			return active, err
		}
	}
	return false, nil
}

// pods are those that the set has by its own count.
func (p *prober) pods(ctx context.Context, set *appsv1.StatefulSet) ([]*corev1.Pod, error) {
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil {
		return nil, fmt.Errorf("selector of StatefulSet %s/%s: %w", set.Namespace, set.Name, err)
	}
	var pods []*corev1.Pod
	err = kube.Pages(ctx, p.client, plan.Pods, set.Namespace, selector.String(), &corev1.PodList{}, func(l *corev1.PodList) {
		for i := range l.Items {
			if sts.IsPodOf(&l.Items[i], set) {
				pods = append(pods, &l.Items[i])
			}
		}
	})
	if err != nil {
		return nil, err
	}
	running := func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodRunning && pod.Status.PodIP != "" }
	if len(pods) != int(sts.Replicas(set)) || !slices.ContainsFunc(pods, running) {
		return nil, fmt.Errorf("%d of %d pods are there to ask", len(pods), sts.Replicas(set))
	}
	if i := slices.IndexFunc(pods, func(pod *corev1.Pod) bool { return !running(pod) }); i >= 0 {
		return nil, fmt.Errorf("pod %s does not run", pods[i].Name)
	}
	return pods, nil
}

// askHTTP takes 200 for in use, and 204 for idle.
func (p *prober) askHTTP(ctx context.Context, pod *corev1.Pod, probe idle.Probe) (bool, error) {
	address := "http://" + net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(probe.Port)) + probe.Path
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return false, fmt.Errorf("asking pod %s: %w", pod.Name, err)
	}
	response, err := p.http.Do(request)
	if err != nil {
		return false, fmt.Errorf("asking pod %s: %w", pod.Name, err)
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusOK:
		return true, nil
	case http.StatusNoContent:
		return false, nil
	}
	return false, fmt.Errorf("pod %s answers %d; 200 means in use, 204 idle", pod.Name, response.StatusCode)
}

// askPrometheus takes any value above zero for in use. A query without a result says nothing.
func (p *prober) askPrometheus(ctx context.Context, query string) (bool, error) {
	if p.prometheus == "" {
		return false, errors.New("no Prometheus is known; set DRYDOCK_PROMETHEUS to its URL")
	}
	address := strings.TrimSuffix(p.prometheus, "/") + "/api/v1/query"
	form := strings.NewReader(url.Values{"query": {query}}.Encode())
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, form)
	if err != nil {
		return false, fmt.Errorf("asking Prometheus: %w", err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := p.http.Do(request)
	if err != nil {
		return false, fmt.Errorf("asking Prometheus: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, mostAnswer))
	if err != nil {
		return false, fmt.Errorf("reading Prometheus' answer: %w", err)
	}
	return above(response.StatusCode, body)
}

// askTCP counts the connections to the port that the pod's kernel has established, as the first container sees them: all
// containers of a pod share its network.
func (p *prober) askTCP(ctx context.Context, pod *corev1.Pod, probe idle.Probe) (bool, error) {
	table, err := p.read(ctx, pod, "/proc/net/tcp")
	if err != nil {
		return false, fmt.Errorf("reading the connections of pod %s: %w", pod.Name, err)
	}
	six, err := p.read(ctx, pod, "/proc/net/tcp6")
	var ended exec.CodeExitError
	if err != nil && !errors.As(err, &ended) { // a node without IPv6 has no such file, and cat says so
		return false, fmt.Errorf("reading the connections of pod %s: %w", pod.Name, err)
	}
	n, err := established(string(table)+string(six), probe.Port)
	if err != nil {
		return false, fmt.Errorf("reading the connections of pod %s: %w", pod.Name, err)
	}
	return n > 0, nil
}

func (p *prober) read(ctx context.Context, pod *corev1.Pod, path string) ([]byte, error) {
	return p.client.Exec(ctx, pod.Namespace, pod.Name, pod.Spec.Containers[0].Name, "cat", path)
}
