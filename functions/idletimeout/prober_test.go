package idletimeout

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/probe"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

// result renders the result of a probe.
func result(active bool, err error) string {
	switch {
	case err != nil && active:
		return "in use, and an error"
	case err != nil:
		return err.Error()
	case active:
		return "in use"
	}
	return "idle"
}

func expectResult(t *testing.T, got, want string) {
	t.Helper()
	if want == "idle" || want == "in use" {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	} else if !strings.Contains(got, want) || got == "in use, and an error" {
		t.Errorf("%s, want %q", got, want)
	}
}

// replica returns a running pod of set web at the address of this machine.
func replica(ordinal int, options ...build.Option) *corev1.Pod {
	address := build.Edit(func(p *corev1.Pod) {
		p.Status.PodIP = "127.0.0.1"
		p.Spec.Containers = []corev1.Container{{Name: "db"}}
		p.OwnerReferences[0].UID = "uid-web"
	})
	return build.With(build.PodOf("web", ordinal, "data"), append([]build.Option{address}, options...)...)
}

func ask(t *testing.T, c *cluster, settings api.Settings, text string, options ...build.Option) string {
	t.Helper()
	probe, err := probe.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	set := build.Set("web", append([]build.Option{build.Replicas(2)}, options...)...)
	m := idle.MemberOf(build.With(set, build.Annotation(api.ActivityProbeAnnotation, text)))
	m.Rules.Probe = probe
	answer := newProber(c.client(), settings, slog.New(slog.DiscardHandler)).askAll(t.Context(), idle.Group{m}, []idle.Member{m})["web"]
	return result(answer.Active, answer.Err)
}

// podOf returns a running pod of the set at the address of this machine.
func podOf(set string, ordinal int, options ...build.Option) *corev1.Pod {
	at := build.Edit(func(p *corev1.Pod) {
		p.Status.PodIP = "127.0.0.1"
		p.Spec.Containers = []corev1.Container{{Name: "db"}}
		p.OwnerReferences[0].UID = build.Set(set).UID
	})
	return build.With(build.PodOf(set, ordinal), append([]build.Option{at}, options...)...)
}

// probeServer starts a server for probes. It returns the port and the number of requests so far.
func probeServer(t *testing.T, answer http.HandlerFunc) (port string, asked *atomic.Int32) {
	t.Helper()
	asked = &atomic.Int32{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	return portOf(server.URL), asked
}

func portOf(url string) string { return url[strings.LastIndex(url, ":")+1:] }

// silent accepts the request and never answers, like a network policy that drops packets.
func silent(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func TestAskHTTP(t *testing.T) {
	var asked atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(elsewhere.Close)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/used":
			if r.Method != http.MethodGet || r.URL.RawQuery != "since=1h" {
				w.WriteHeader(http.StatusTeapot)
			}
		case "/huge":
			_, _ = io.Copy(w, io.LimitReader(endless{}, 64<<20)) // more than the prober reads
		case "/idle":
			w.WriteHeader(http.StatusNoContent)
		case "/moved":
			http.Redirect(w, r, elsewhere.URL, http.StatusFound)
		case "/slow":
			select {
			case <-r.Context().Done():
			case <-time.After(10 * time.Second):
			}
		case "/gone":
			connection, _, _ := w.(http.Hijacker).Hijack()
			_ = connection.Close()
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(server.Close)
	closed := httptest.NewServer(nil)
	closed.Close()
	settings := build.SleepSettings()
	settings.ProbeTimeout = 500 * time.Millisecond
	c := newCluster(t, replica(0), replica(1))
	for path, want := range map[string]string{
		"/used?since=1h": "in use",
		"/idle":          "idle",
		"/moved":         "answered 302; 200 means in use, 204 idle",
		"/none":          "answered 404",
		"/gone":          "asking pod web-",
		"/slow":          "asking pod web-",
		"/huge":          "in use",
		"/%zz":           "asking pod web-",
	} {
		t.Run(path, func(t *testing.T) {
			begin := time.Now()
			expectResult(t, ask(t, c, settings, "http:"+portOf(server.URL)+path), want)
			if took := time.Since(begin); took > 5*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
	expectResult(t, ask(t, c, settings, "http:"+portOf(closed.URL)), "connection refused")
	if asked.Load() > 0 {
		t.Error("another server was asked")
	}
}

// TestAskHTTPSOfAHost asks an application that accepts only its own host name.
func TestAskHTTPSOfAHost(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host != "shop.example" || r.TLS.ServerName != "shop.example" {
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	t.Cleanup(server.Close)
	at := portOf(server.URL)
	c := newCluster(t, replica(0), replica(1))
	expectResult(t, ask(t, c, build.SleepSettings(), "https:"+at+"/used host=shop.example"), "in use")
	expectResult(t, ask(t, c, build.SleepSettings(), "https:"+at+"/used"), "answered 400")
	expectResult(t, ask(t, c, build.SleepSettings(), "http:"+at+"/used host=shop.example"), "answered 400")
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// TestOneActivePodIsEnough: a set is in use if one pod says so, and idle only if all pods say so.
func TestOneActivePodIsEnough(t *testing.T) {
	for _, row := range []struct {
		codes []int
		want  string
	}{
		{[]int{204, 204}, "idle"}, {[]int{204, 200}, "in use"}, {[]int{500, 200}, "in use"}, {[]int{204, 500}, "answered 500"},
	} {
		var asked atomic.Int32
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(row.codes[asked.Add(1)-1])
		}))
		expectResult(t, ask(t, newCluster(t, replica(0), replica(1)), build.SleepSettings(), "http:"+portOf(server.URL)), row.want)
		server.Close()
	}
}

// TestPodsThatCannotBeProbed: a set is not idle while the state of a pod is unknown.
func TestPodsThatCannotBeProbed(t *testing.T) {
	elsewhere := build.Edit(func(p *corev1.Pod) { p.OwnerReferences[0].UID = "uid-2" })
	situations := map[string][]metav1.Object{
		"there are none":         nil,
		"one is missing":         []metav1.Object{replica(0)},
		"one too many":           []metav1.Object{replica(0), replica(1), replica(2)},
		"one is another set's":   []metav1.Object{replica(0), replica(1, elsewhere)},
		"one is not selected":    []metav1.Object{replica(0), replica(1, build.Label("app", "api"))},
		"one does not run":       []metav1.Object{replica(0), replica(1, build.InPhase(corev1.PodPending))},
		"none runs":              []metav1.Object{replica(0, build.InPhase(corev1.PodPending)), replica(1, build.InPhase(corev1.PodFailed))},
		"one has no address yet": []metav1.Object{replica(0), replica(1, build.Edit(func(p *corev1.Pod) { p.Status.PodIP = "" }))},
	}
	file := golden.Open(t)
	for _, name := range slices.Sorted(maps.Keys(situations)) {
		t.Run(name, func(t *testing.T) {
			file.Entry(t, name, ask(t, newCluster(t, situations[name]...), build.SleepSettings(), "http:1"))
		})
	}
	c := newCluster(t)
	c.down = "pods"
	expectResult(t, ask(t, c, build.SleepSettings(), "tcp:1"), "listing pods")
	expectResult(t, ask(t, c, build.SleepSettings(), "tcp:1", build.Edit(func(s *appsv1.StatefulSet) {
		s.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}
	})), "selector of StatefulSet shop/web")
}

// TestSlowPodsAreProbedConcurrently: one after another they would take two seconds.
func TestSlowPodsAreProbedConcurrently(t *testing.T) {
	port, asked := probeServer(t, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(100 * time.Millisecond):
		case <-r.Context().Done():
		}
		w.WriteHeader(http.StatusNoContent)
	})
	var pods []metav1.Object
	for i := range 20 {
		pods = append(pods, replica(i))
	}
	settings := build.SleepSettings()
	settings.ProbeTimeout = 1500 * time.Millisecond
	expectResult(t, ask(t, newCluster(t, pods...), settings, "http:"+port, build.Replicas(20)), "idle")
	if asked.Load() != 20 {
		t.Errorf("asked %d times", asked.Load())
	}
}

// TestProbesLeaveTimeForWrites checks the time that an event leaves for probes.
func TestProbesLeaveTimeForWrites(t *testing.T) {
	p := newProber(nil, api.Settings{ProbeTimeout: 5 * time.Second}, slog.New(slog.DiscardHandler))
	for left, want := range map[time.Duration]time.Duration{25 * time.Second: 5 * time.Second, 12 * time.Second: 2 * time.Second,
		9 * time.Second: -time.Second} {
		ctx, cancel := context.WithTimeout(t.Context(), left)
		if got := p.probeTime(ctx); got > want || got < want-time.Second {
			t.Errorf("of %s the probes may take %s, want %s", left, got, want)
		}
		cancel()
	}
}

func TestProbesPerEventAreLimited(t *testing.T) {
	port, asked := probeServer(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	var pods []metav1.Object
	var group idle.Group
	for i := range maxProbes + 1 {
		name := fmt.Sprintf("s%02d", i)
		pods = append(pods, podOf(name, 0))
		group = append(group, idle.MemberOf(member(name, build.Replicas(1), build.Annotation(api.ActivityProbeAnnotation, "http:"+port))))
	}
	found := newProber(newCluster(t, pods...).client(), build.SleepSettings(), slog.New(slog.DiscardHandler)).askAll(t.Context(), group, group)
	if got := found["s50"]; got.Err == nil || !strings.Contains(got.Err.Error(), "more than 50 sets") {
		t.Errorf("%+v", got)
	}
	if got := found["s49"]; got.Err != nil || got.Active || asked.Load() != maxProbes {
		t.Errorf("%+v, asked %d times", got, asked.Load())
	}
}

func TestAskTCP(t *testing.T) {
	c := newCluster(t, replica(0), replica(1))
	used := header4 + line4("0100000A:1538", "0200000A:C001", "01") + header6
	for name, row := range map[string]struct {
		printed map[string]string
		want    string
	}{
		"no connection":            {map[string]string{"web-0": header4, "web-1": header4 + header6}, "idle"},
		"one pod has a connection": {map[string]string{"web-0": header4, "web-1": used}, "in use"},
		"only the first pod answers, and it has a connection":  {map[string]string{"web-0": used}, "in use"},
		"only the second pod answers, and it has a connection": {map[string]string{"web-1": used}, "in use"},
		"only the second pod answers, without a connection":    {map[string]string{"web-1": header4}, "reading the connections of pod web-0: "},
		"the first pod answers nonsense": {map[string]string{"web-0": "a b c d", "web-1": header4},
			"reading the connections of pod web-0: "},
		"only the first pod answers, without a connection": {map[string]string{"web-0": header4}, "reading the connections of pod web-1: "},
	} {
		t.Run(name, func(t *testing.T) {
			c.printed = row.printed
			expectResult(t, ask(t, c, build.SleepSettings(), "tcp:5432"), row.want)
		})
	}
}
