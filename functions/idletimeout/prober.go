package idletimeout

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/exec"

	"drydock.dev/shared/api"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/podprobe"
	"drydock.dev/shared/probe"
	"drydock.dev/shared/statefulset"
)

// prober asks whether a set is in use. If it cannot find out, it returns an error, never "idle".
type prober struct {
	client     *kube.Client
	timeout    time.Duration
	prometheus *prometheus
}

func newProber(client *kube.Client, settings api.Settings, log *slog.Logger) *prober {
	return &prober{client: client, timeout: settings.ProbeTimeout, prometheus: newPrometheus(settings, log)}
}

// askAll asks the members of a group concurrently, within one timeout, and returns the results by set.
func (p *prober) askAll(ctx context.Context, group idle.Group, members []idle.Member) map[string]ProbeResult {
	ctx, cancel := context.WithTimeout(ctx, p.probeTime(ctx))
	defer cancel()
	asked := members[:min(len(members), maxProbes)]
	peers, peersErr := p.peerAddresses(ctx, group, asked)
	answers := make([]ProbeResult, len(members))
	for i := len(asked); i < len(members); i++ {
		answers[i].Err = fmt.Errorf("the group has more than %d sets with a probe. Remove some probes", maxProbes)
	}
	for i, err := range podprobe.ForEach(len(asked), func(i int) (err error) {
		if asked[i].Rules.Probe.Kind == probe.TCP && peersErr != nil {
			return peersErr
		}
		answers[i].Active, err = p.ask(ctx, asked[i].Set, *asked[i].Rules.Probe, peers)
		return err
	}) {
		answers[i].Err = err
	}
	found := map[string]ProbeResult{}
	for i, m := range members {
		found[m.Set.Name] = answers[i]
	}
	return found
}

// probeTime returns how long the probes of an event may take.
func (p *prober) probeTime(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return min(p.timeout, time.Until(deadline)-reservedForWrites)
	}
	return p.timeout
}

// peerAddresses returns the addresses of the group's pods in the form of kernelAddress, or nil if no asked member counts connections.
// Connections between members, such as replication or a connection pool, are not use. Pods on the host network are left out,
// because clients may share their address.
func (p *prober) peerAddresses(ctx context.Context, group idle.Group, asked []idle.Member) (map[string]bool, error) {
	if !slices.ContainsFunc(asked, func(m idle.Member) bool { return m.Rules.Probe.Kind == probe.TCP }) {
		return nil, nil
	}
	lists := make([][]*corev1.Pod, len(group))
	errs := podprobe.ForEach(len(group), func(i int) (err error) {
		lists[i], err = p.pods(ctx, group[i].Set)
		return err
	})
	peers := map[string]bool{}
	for _, pod := range slices.Concat(lists...) {
		for _, ip := range pod.Status.PodIPs {
			if address, err := netip.ParseAddr(ip.IP); err == nil && !pod.Spec.HostNetwork {
				peers[string(address.Unmap().AsSlice())] = true
			}
		}
	}
	return peers, errors.Join(errs...)
}

// ask asks one set.
func (p *prober) ask(ctx context.Context, set *appsv1.StatefulSet, question probe.Probe, peers map[string]bool) (bool, error) {
	if question.Kind == probe.Prometheus {
		return p.prometheus.ask(ctx, set.Namespace, question.Query)
	}
	pods, err := p.runningPods(ctx, set)
	if err != nil {
		return false, err
	}
	active := make([]bool, len(pods))
	errs := podprobe.ForEach(len(pods), func(i int) (err error) {
		if question.Kind == probe.TCP {
			active[i], err = p.askTCP(ctx, pods[i], question.Port, peers)
		} else {
			active[i], err = askHTTP(ctx, pods[i], question)
		}
		return err
	})
	if slices.Contains(active, true) { // one active pod is enough, even if others failed
		return true, nil
	}
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
		return false, errs[i]
	}
	return false, nil
}

// pods returns the pods that belong to the set.
func (p *prober) pods(ctx context.Context, set *appsv1.StatefulSet) ([]*corev1.Pod, error) {
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil {
		return nil, fmt.Errorf("selector of StatefulSet %s/%s: %w", set.Namespace, set.Name, err)
	}
	var pods []*corev1.Pod
	err = kube.Pages(ctx, p.client, plan.Pods, set.Namespace, selector.String(), &corev1.PodList{}, func(l *corev1.PodList) {
		for i := range l.Items {
			if statefulset.IsPodOf(&l.Items[i], set) {
				pods = append(pods, &l.Items[i])
			}
		}
	})
	return pods, err
}

// runningPods returns the set's pods, or an error unless all of them run.
func (p *prober) runningPods(ctx context.Context, set *appsv1.StatefulSet) ([]*corev1.Pod, error) {
	pods, err := p.pods(ctx, set)
	if err != nil {
		return nil, err
	}
	running := func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodRunning && pod.Status.PodIP != "" }
	if len(pods) != int(statefulset.Replicas(set)) || !slices.ContainsFunc(pods, running) {
		return nil, fmt.Errorf("%d of %d pods exist and can be asked", len(pods), statefulset.Replicas(set))
	}
	if i := slices.IndexFunc(pods, func(pod *corev1.Pod) bool { return !running(pod) }); i >= 0 {
		return nil, fmt.Errorf("pod %s is not running", pods[i].Name)
	}
	return pods, nil
}

// askHTTP reports whether the pod is in use. 200 means in use, 204 means idle, and any other answer is an error.
func askHTTP(ctx context.Context, pod *corev1.Pod, probe probe.Probe) (bool, error) {
	code, err := podprobe.Get(ctx, pod, probe)
	if err != nil {
		return false, fmt.Errorf("asking pod %s: %w", pod.Name, err)
	}
	switch code {
	case http.StatusOK:
		return true, nil
	case http.StatusNoContent:
		return false, nil
	}
	return false, fmt.Errorf("pod %s answered %d; 200 means in use, 204 idle", pod.Name, code)
}

// askTCP reports whether the pod has established connections to the port. It reads the tables in the first container, because all
// containers of a pod share its network. Connections from peers do not count.
func (p *prober) askTCP(ctx context.Context, pod *corev1.Pod, port int, peers map[string]bool) (bool, error) {
	found := &connections{port: port, peers: peers}
	err := p.readFile(ctx, pod, "/proc/net/tcp", found)
	var ended exec.CodeExitError
	if err == nil {
		// Without IPv6 the file does not exist and cat fails, which is no error here.
		if err = p.readFile(ctx, pod, "/proc/net/tcp6", found); errors.As(err, &ended) {
			err = nil
		}
	}
	n := 0
	if err == nil {
		n, err = found.count()
	}
	if err != nil {
		return false, fmt.Errorf("reading the connections of pod %s: %w", pod.Name, err)
	}
	return n > 0, nil
}

// readFile writes the content of the file in the first container of the pod to out.
func (p *prober) readFile(ctx context.Context, pod *corev1.Pod, path string, out io.Writer) error {
	return p.client.Exec(ctx, pod.Namespace, pod.Name, pod.Spec.Containers[0].Name, out, "cat", path)
}
