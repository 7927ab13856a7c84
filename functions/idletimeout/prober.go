package idletimeout

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
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
	"drydock.dev/shared/prom"
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

// maxSeries limits the result of a query. A larger result is an error, because it could be truncated.
const maxSeries = 100

// stateEstablished is TCP_ESTABLISHED (Linux include/net/tcp_states.h).
const stateEstablished = "01"

// maxLine limits a line of the kernel's tables. The kernel's lines have at most 200 bytes.
const maxLine = 1 << 10

// connections counts the established connections to a local port in the kernel's tables (proc_net_tcp(5)), which are written to it. It
// skips connections from the pod itself, such as a health check over the loopback, and connections from peers. It keeps no more than a
// line, because a pod can print anything.
type connections struct {
	port  int
	peers map[string]bool
	n     int    // connections so far
	seen  bool   // a table has begun
	line  []byte // the beginning of the next line
	err   error  // the first line that is not of a table
}

// Write reads the lines that p completes. Its error stays, because client-go only logs errors of the writer of a command's output
// (tools/remotecommand).
func (c *connections) Write(p []byte) (int, error) {
	for line := range bytes.Lines(p) {
		switch whole := bytes.HasSuffix(line, []byte("\n")); {
		case c.err != nil:
			return 0, c.err
		case len(c.line)+len(line) > maxLine:
			c.err = fmt.Errorf("line %.200q… is not an entry of /proc/net/tcp", append(c.line, line[:min(len(line), maxLine)]...))
		case whole:
			c.err = c.read(string(append(c.line, line...)))
			c.line = c.line[:0]
		default:
			c.line = append(c.line, line...)
		}
	}
	return len(p), c.err
}

// read reads a line of a table.
func (c *connections) read(line string) error {
	fields := strings.Fields(line)
	if len(fields) < 4 {
		return nil
	}
	if fields[0] == "sl" {
		c.seen = true
		return nil
	}
	address, local, ok := strings.Cut(fields[1], ":")
	remote, _, okRemote := strings.Cut(fields[2], ":")
	number, err := strconv.ParseUint(local, 16, 16)
	if !ok || !okRemote || err != nil {
		return fmt.Errorf("line %.200q is not an entry of /proc/net/tcp", strings.TrimSpace(line))
	}
	if fields[3] == stateEstablished && int(number) == c.port && address != remote && !isPeer(remote, c.peers) {
		c.n++
	}
	return nil
}

// count returns the number of connections in the tables.
func (c *connections) count() (int, error) {
	if c.err == nil {
		c.err = c.read(string(c.line))
	}
	if c.err == nil && !c.seen {
		c.err = errors.New("the pod printed no table of connections")
	}
	return c.n, c.err
}

// isPeer reports whether the address from the kernel's table belongs to a peer. An unreadable address does not.
func isPeer(text string, peers map[string]bool) bool {
	address, ok := kernelAddress(text)
	return ok && peers[address]
}

// ipv4MappedPrefix starts an IPv6 address that stands for an IPv4 address.
const ipv4MappedPrefix = "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff"

// kernelAddress returns the bytes of an address from the kernel's table. The kernel prints words of four bytes in hexadecimal, in the
// byte order of the machine. The function assumes little-endian, as on common Kubernetes nodes. On a big-endian node no address
// matches a peer, so every connection counts.
func kernelAddress(text string) (string, bool) {
	bytes, err := hex.DecodeString(text)
	if err != nil || len(bytes) != 4 && len(bytes) != 16 {
		return "", false
	}
	for word := range slices.Chunk(bytes, 4) {
		slices.Reverse(word)
	}
	return strings.TrimPrefix(string(bytes), ipv4MappedPrefix), true
}

// prometheus asks the administrator's Prometheus. The author of a StatefulSet writes the query, and an error message of Prometheus
// can quote series of other tenants. Therefore only the meaning of the answer reaches the set, never its text.
type prometheus struct {
	server     prom.Server
	namespaces []string
	log        *slog.Logger
}

func newPrometheus(settings api.Settings, log *slog.Logger) *prometheus {
	return &prometheus{server: prom.New(settings), namespaces: settings.PromNamespaces, log: log}
}

// allows reports whether sets of the namespace may send queries: the administrator listed the namespace, or the URL separates tenants.
func (p *prometheus) allows(namespace string) bool {
	return p.server.SeparatesNamespaces() || slices.Contains(p.namespaces, namespace) || slices.Contains(p.namespaces, "*")
}

// ask reports whether a value of the query's result is above zero. An empty result is an error.
func (p *prometheus) ask(ctx context.Context, namespace, query string) (bool, error) {
	switch {
	case !p.server.IsConfigured():
		return false, errors.New("no Prometheus is configured. Set DRYDOCK_PROMETHEUS to its URL")
	case !p.allows(namespace):
		return false, fmt.Errorf("sets of namespace %s may not query Prometheus. "+
			"Add the namespace to DRYDOCK_PROMETHEUS_NAMESPACES, or put %s into DRYDOCK_PROMETHEUS", namespace, prom.NamespacePlaceholder)
	}
	code, body, err := p.server.Query(ctx, namespace, query, maxSeries, maxAnswerBytes)
	switch {
	case errors.Is(err, prom.ErrSettings):
		return false, p.logAndHide(ctx, namespace, "prometheus cannot be queried; check the settings DRYDOCK_PROMETHEUS*", err)
	case errors.Is(err, prom.ErrUnfinished):
		return false, p.logAndHide(ctx, namespace, "prometheus did not finish its answer", err)
	case err != nil:
		return false, p.logAndHide(ctx, namespace, "prometheus did not answer", err)
	}
	return anyAboveZero(code, body)
}

// anyAboveZero reports whether a value of the result is above zero. Its errors quote only the status code of the answer.
func anyAboveZero(code int, body []byte) (bool, error) {
	samples, err := prom.Read(code, body, maxSeries)
	return slices.ContainsFunc(samples, func(s prom.Sample) bool { return s.Value > 0 }), err
}

// logAndHide logs the error for the administrator, and returns the message that the author of the set may read.
func (p *prometheus) logAndHide(ctx context.Context, namespace, known string, err error) error {
	p.log.WarnContext(ctx, "asking Prometheus", "namespace", namespace, "error", err.Error())
	return errors.New(known)
}
