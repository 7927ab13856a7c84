package forecast

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

func used(n int64) Claim { return Claim{Used: &n, Capacity: 10 * n} }

func full(n int64) Claim { return Claim{Capacity: n} }

func TestStopIsEstimatedFromObservations(t *testing.T) {
	const grace, start = 30 * time.Second, 10 * time.Second
	three := func(s stop) stop {
		s.members, s.grace, s.start, s.pod, s.withFirstPass, s.parallel = 3, grace, start, "web-2", 3, 4
		return s
	}
	file := golden.Open(t)
	for _, row := range []struct {
		situation string
		stop      stop
		want      string // seconds from and to
	}{
		{"all members stop together", three(stop{together: true}), "together 10 to 40"},
		{"all members stop, one after the other", three(stop{together: true, ordered: true}), "together 30 to 120"},
		{"one member stops at a time", three(stop{ordered: true, limit: time.Minute}), "10 to 100"},
		{"parts of a second are rounded up", stop{members: 1, start: 1100 * time.Millisecond, pod: "web-0", withFirstPass: 1}, "2 to 2"},
		{"no pod is ready", stop{members: 1, grace: grace, withFirstPass: 1}, "0 to 30"},
		{"a claim has no first pass",
			stop{members: 1, grace: grace, start: start, pod: "web-0", withoutFirstPass: []Claim{used(1e9)}, parallel: 4}, "20 to 50"},
		{"the usage of a claim without a first pass is not measured",
			stop{members: 1, grace: grace, start: start, pod: "web-0", withoutFirstPass: []Claim{full(1e9)}, parallel: 4}, "10 to 50"},
		{"the usage of one of two claims is not measured",
			stop{members: 1, together: true, start: start, pod: "web-0", withoutFirstPass: []Claim{used(1e9), full(2e9)}, withFirstPass: 1,
				parallel: 4}, "20 to 30"},
		{"parallel copies take as long as the largest",
			stop{members: 3, together: true, pod: "web-0", withoutFirstPass: []Claim{used(1e9), used(2e9), used(1e9)}, parallel: 4},
			"together 20 to 20"},
		{"more copies than may run in parallel",
			stop{members: 4, together: true, pod: "web-0", withoutFirstPass: []Claim{used(1e9), used(1e9), used(1e9), used(1e9)}, parallel: 2},
			"together 20 to 20"},
		{"one member at a time waits only for its own copy",
			stop{members: 4, pod: "web-0", withoutFirstPass: []Claim{used(1e9), used(1e9), used(1e9), used(1e9)}, parallel: 2}, "10 to 10"},
		{"no member runs", stop{grace: grace, withoutFirstPass: []Claim{used(1e9)}, parallel: 4}, "none, 10 to 10"},
	} {
		s := row.stop.estimate()
		got := fmt.Sprintf("%d to %d", s.From, s.To)
		if s.Together {
			got = "together " + got
		}
		if s.None {
			got = "none, " + got
		}
		if got != row.want {
			t.Errorf("%s: got %s, want %s", row.situation, got, row.want)
		}
		text := got + " seconds\n"
		for _, part := range []struct {
			name  string
			lines []string
		}{{"observed", s.Observed}, {"assumed", s.Assumed}, {"not included", s.Excluded}} {
			for _, line := range part.lines {
				text += part.name + ": " + line + "\n"
			}
		}
		file.Entry(t, row.situation, text)
	}
}

// TestStartTimeIsThatOfTheNewestReadyPod: pods with restarted containers, and terminating pods, do not count.
func TestStartTimeIsThatOfTheNewestReadyPod(t *testing.T) {
	took := func(d time.Duration) build.Option {
		return build.Edit(func(p *corev1.Pod) {
			p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(p.CreationTimestamp.Add(d))
		})
	}
	restarted := build.Edit(func(p *corev1.Pod) { p.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: 1}} })
	unready := build.Edit(func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse })
	foreign := build.Edit(func(p *corev1.Pod) { p.OwnerReferences[0].UID = "uid-other" })
	for name, row := range map[string]struct {
		pods objects
		want string
	}{
		"both pods are ready":                   {objects{pod(0, took(time.Minute)), pod(1)}, "web-1 10s"},
		"both pods are ready, in another order": {objects{pod(1), pod(0, took(time.Minute))}, "web-1 10s"},
		"the newest is not ready":               {objects{pod(0), pod(1, unready)}, "web-0 10s"},
		"the newest has restarted":              {objects{pod(0), pod(1, restarted)}, "web-0 10s"},
		"the newest is terminating":             {objects{pod(0), pod(1, build.Deleting())}, "web-0 10s"},
		"the newest belongs to another set":     {objects{pod(0), pod(1, foreign)}, "web-0 10s"},
		"no pod is ready":                       {objects{pod(0, unready)}, " 0s"},
		"it was ready before its creation":      {objects{pod(0, took(-time.Minute))}, "web-0 0s"},
	} {
		t.Run(name, func(t *testing.T) {
			name, start := newestStart(build.World(append(set(), row.pods...)...))
			if got := fmt.Sprint(name, " ", start); got != row.want {
				t.Errorf("got %s, want %s", got, row.want)
			}
		})
	}
}

func TestStopDependsOnStrategyAndPodManagementPolicy(t *testing.T) {
	parallel := build.Edit(func(s *appsv1.StatefulSet) { s.Spec.PodManagementPolicy = appsv1.ParallelPodManagement })
	rolling := build.Annotation(api.StrategyAnnotation, "rolling")
	short := build.Annotation(api.MaxStopAnnotation, "5s")
	for name, row := range map[string]struct {
		in   Input
		want string
	}{
		"every claim grows":                 {given("data=128Mi", set(), claims(roomy), pods()), "true 0 0"},
		"only the template changes":         {given("data=128Mi", set(), nil, nil), "true 0 0"},
		"whole, OrderedReady":               {given("data=128Mi", set(), claims("fixed"), pods()), "false 20 80"},
		"whole, Parallel":                   {given("data=128Mi", set(parallel), claims("fixed"), pods()), "false 10 40"},
		"rolling":                           {given("data=128Mi", set(rolling), claims("fixed"), pods()), "false 10 100"},
		"rolling, with a limit":             {given("data=128Mi", set(rolling, short), claims("fixed"), pods()), "false 10 45"},
		"one member is beyond the replicas": {given("data=128Mi", set(build.Replicas(1)), claims("fixed"), objects{pod(0)}), "false 10 41"},
		"nothing to do":                     {given("data=64Mi", set(), claims("fixed"), pods()), "true 0 0"},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(row.in).Document(nil, nil).Stop
			if got := fmt.Sprint(s.None, s.From, s.To); got != row.want {
				t.Errorf("got %s, want %s", got, row.want)
			}
			if strings.HasPrefix(name, "every") != (s.None && len(s.Excluded) == 1) {
				t.Errorf("excluded %q", s.Excluded)
			}
		})
	}
}
