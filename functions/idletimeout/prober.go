package idletimeout

import (
	"context"
	"errors"
	"fmt"
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
	"drydock.dev/shared/statefulset"
)

// prober asks whether a set is in use. Whatever it cannot find out is an error, never "idle".
type prober struct {
	client     *kube.Client
	timeout    time.Duration
	prometheus *prometheus
}

const (
	// mostAnswer bounds the answer to a probe in bytes.
	mostAnswer = 1 << 20
	// mostProbes bounds the sets that are asked in one event.
	mostProbes = 50
	// forWrites is how much of the event's time the probes leave for what follows from their answers.
	forWrites = 10 * time.Second
)

func newProber(client *kube.Client, settings api.Settings, log *slog.Logger) *prober {
	return &prober{client: client, timeout: settings.ProbeTimeout, prometheus: newPrometheus(settings, log)}
}

// askAll asks the members of a group at the same time, all within one timeout, and returns what it found by set.
func (p *prober) askAll(ctx context.Context, group idle.Group, members []idle.Member) map[string]Probed {
	ctx, cancel := context.WithTimeout(ctx, p.patience(ctx))
	defer cancel()
	asked := members[:min(len(members), mostProbes)]
	peers, peersErr := p.peers(ctx, group, asked)
	answers := make([]Probed, len(members))
	for i := len(asked); i < len(members); i++ {
		answers[i].Err = fmt.Errorf("its group has more than %d sets with a probe; remove some", mostProbes)
	}
	podprobe.Each(len(asked), func(i int) {
		if asked[i].Rules.Probe.Kind == idle.ProbeTCP && peersErr != nil {
			answers[i].Err = peersErr
			return
		}
		answers[i].Active, answers[i].Err = p.ask(ctx, asked[i].Set, *asked[i].Rules.Probe, peers)
	})
	found := map[string]Probed{}
	for i, m := range members {
		found[m.Set.Name] = answers[i]
	}
	return found
}

// patience returns how long the probes of an event may take.
func (p *prober) patience(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return min(p.timeout, time.Until(deadline)-forWrites)
	}
	return p.timeout
}

// peers returns the addresses of the pods of the group, as kernelAddress has them, where a member counts connections: replication and a pool of another
// member are no use of the group. Pods on the host's network are left out, because clients may have the same address.
func (p *prober) peers(ctx context.Context, group idle.Group, asked []idle.Member) (map[string]bool, error) {
	if !slices.ContainsFunc(asked, func(m idle.Member) bool { return m.Rules.Probe.Kind == idle.ProbeTCP }) {
		return nil, nil
	}
	lists, errs := make([][]*corev1.Pod, len(group)), make([]error, len(group))
	podprobe.Each(len(group), func(i int) { lists[i], errs[i] = p.pods(ctx, group[i].Set) })
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
func (p *prober) ask(ctx context.Context, set *appsv1.StatefulSet, probe idle.Probe, peers map[string]bool) (bool, error) {
	if probe.Kind == idle.ProbePrometheus {
		return p.prometheus.ask(ctx, set.Namespace, probe.Query)
	}
	pods, err := p.running(ctx, set)
	if err != nil {
		return false, err
	}
	active, errs := make([]bool, len(pods)), make([]error, len(pods))
	podprobe.Each(len(pods), func(i int) {
		if probe.Kind == idle.ProbeTCP {
			active[i], errs[i] = p.askTCP(ctx, pods[i], probe.Port, peers)
		} else {
			active[i], errs[i] = askHTTP(ctx, pods[i], probe)
		}
	})
	if slices.Contains(active, true) { // one is enough, whatever the others say
		return true, nil
	}
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
		return false, errs[i]
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
			if statefulset.IsPodOf(&l.Items[i], set) {
				pods = append(pods, &l.Items[i])
			}
		}
	})
	return pods, err
}

// running returns the set's pods, if all of them run.
func (p *prober) running(ctx context.Context, set *appsv1.StatefulSet) ([]*corev1.Pod, error) {
	pods, err := p.pods(ctx, set)
	if err != nil {
		return nil, err
	}
	running := func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodRunning && pod.Status.PodIP != "" }
	if len(pods) != int(statefulset.Replicas(set)) || !slices.ContainsFunc(pods, running) {
		return nil, fmt.Errorf("%d of %d pods are there to ask", len(pods), statefulset.Replicas(set))
	}
	if i := slices.IndexFunc(pods, func(pod *corev1.Pod) bool { return !running(pod) }); i >= 0 {
		return nil, fmt.Errorf("pod %s does not run", pods[i].Name)
	}
	return pods, nil
}

// askHTTP takes 200 for in use, and 204 for idle.
func askHTTP(ctx context.Context, pod *corev1.Pod, probe idle.Probe) (bool, error) {
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
	return false, fmt.Errorf("pod %s answers %d; 200 means in use, 204 idle", pod.Name, code)
}

// askTCP counts the connections to the port that the pod's kernel has established, as the first container sees them: all
// containers of a pod share its network. Connections of peers do not count.
func (p *prober) askTCP(ctx context.Context, pod *corev1.Pod, port int, peers map[string]bool) (bool, error) {
	table, err := p.read(ctx, pod, "/proc/net/tcp")
	if err != nil {
		return false, fmt.Errorf("reading the connections of pod %s: %w", pod.Name, err)
	}
	six, err := p.read(ctx, pod, "/proc/net/tcp6")
	var ended exec.CodeExitError
	if err != nil && !errors.As(err, &ended) { // a node without IPv6 has no such file, and cat says so
		return false, fmt.Errorf("reading the connections of pod %s: %w", pod.Name, err)
	}
	n, err := established(string(table)+string(six), port, peers)
	if err != nil {
		return false, fmt.Errorf("reading the connections of pod %s: %w", pod.Name, err)
	}
	return n > 0, nil
}

func (p *prober) read(ctx context.Context, pod *corev1.Pod, path string) ([]byte, error) {
	return p.client.Exec(ctx, pod.Namespace, pod.Name, pod.Spec.Containers[0].Name, "cat", path)
}
