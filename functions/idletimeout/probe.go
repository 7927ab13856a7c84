package idletimeout

import (
	"context"
	"encoding/json"
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

// above reports whether a value of the result is above zero (Prometheus HTTP API, instant queries).
func above(code int, body []byte) (bool, error) {
	var answer struct {
		Status, Error string
		Data          struct {
			ResultType string
			Result     json.RawMessage
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil || code != http.StatusOK || answer.Status != "success" {
		return false, fmt.Errorf("prometheus answers %d %q", code, answer.Error)
	}
	var samples []struct{ Value sample }
	switch answer.Data.ResultType {
	case "vector":
		if err := json.Unmarshal(answer.Data.Result, &samples); err != nil {
			return false, fmt.Errorf("prometheus answers with a vector that is none: %w", err)
		}
	case "scalar":
		samples = make([]struct{ Value sample }, 1)
		if err := json.Unmarshal(answer.Data.Result, &samples[0].Value); err != nil {
			return false, fmt.Errorf("prometheus answers with a scalar that is none: %w", err)
		}
	default:
		return false, fmt.Errorf("prometheus answers with a %q; ask for a vector or a scalar", answer.Data.ResultType)
	}
	if len(samples) == 0 {
		return false, errors.New("prometheus has no result for the query")
	}
	active := false
	for _, s := range samples {
		value, err := s.Value.float()
		if err != nil || value != value { // not a number
			return false, fmt.Errorf("prometheus answers with the value %q", s.Value)
		}
		active = active || value > 0
	}
	return active, nil
}

// sample is a pair of a time and a value in words.
type sample [2]any

func (s sample) float() (float64, error) {
	text, _ := s[1].(string)
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, fmt.Errorf("value %q: %w", text, err)
	}
	return value, nil
}

// askTCP counts the connections to the port that the pod's kernel has established, as the first container sees them: all
// containers of a pod share its network.
func (p *prober) askTCP(ctx context.Context, pod *corev1.Pod, probe idle.Probe) (bool, error) {
	table, err := p.client.Exec(ctx, pod.Namespace, pod.Name, pod.Spec.Containers[0].Name, "cat", "/proc/net/tcp", "/proc/net/tcp6")
	if err != nil {
		return false, fmt.Errorf("reading the connections of pod %s: %w", pod.Name, err)
	}
	n, err := established(string(table), probe.Port)
	if err != nil {
		return false, fmt.Errorf("reading the connections of pod %s: %w", pod.Name, err)
	}
	return n > 0, nil
}

// stateEstablished is TCP_ESTABLISHED of the kernel's include/net/tcp_states.h.
const stateEstablished = "01"

// established counts the connections to the local port in the kernel's tables (proc_net_tcp(5)), but those from the pod
// itself: a health check over the loopback is no use of the set.
func established(table string, port int) (int, error) {
	n, seen := 0, false
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) < 4 {
			continue
		}
		if fields[0] == "sl" {
			seen = true
			continue
		}
		address, local, ok := strings.Cut(fields[1], ":")
		remote, _, okRemote := strings.Cut(fields[2], ":")
		number, err := strconv.ParseUint(local, 16, 16)
		if !ok || !okRemote || err != nil {
			return 0, fmt.Errorf("line %q is not of the kernel's table", strings.TrimSpace(line))
		}
		if fields[3] == stateEstablished && int(number) == port && address != remote {
			n++
		}
	}
	if !seen {
		return 0, errors.New("the pod has no table of connections")
	}
	return n, nil
}
