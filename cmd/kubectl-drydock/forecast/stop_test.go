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
	"drydock.dev/test/kit/build"
)

func used(n int64) Claim { return Claim{Used: &n, Capacity: 10 * n} }

func full(n int64) Claim { return Claim{Capacity: n} }

func TestStopIsEstimatedFromWhatWasObserved(t *testing.T) {
	const grace, start = 30 * time.Second, 10 * time.Second
	for name, row := range map[string]struct {
		stop stop
		want string // seconds from and to; how much was observed, assumed and left out
	}{
		"all members at once": {
			stop{members: 3, together: true, grace: grace, start: start, pod: "web-2", warm: 3, parallel: 4}, "together 10 to 40, 1 1 2"},
		"all members, in order": {
			stop{members: 3, together: true, ordered: true, grace: grace, start: start, pod: "web-2", warm: 3, parallel: 4},
			"together 30 to 120, 1 1 2"},
		"one member at a time": {
			stop{members: 3, ordered: true, grace: grace, start: start, pod: "web-2", warm: 3, limit: time.Minute, parallel: 4}, "10 to 100, 1 2 1"},
		"parts of a second count": {stop{members: 1, start: 1100 * time.Millisecond, pod: "web-0", warm: 1}, "2 to 2, 1 1 2"},
		"no pod is ready":         {stop{members: 1, grace: grace, warm: 1}, "0 to 30, 0 1 3"},
		"a claim has no first pass": {
			stop{members: 1, grace: grace, start: start, pod: "web-0", cold: []Claim{used(1e9)}, parallel: 4}, "20 to 50, 1 2 1"},
		"how much is in use is not measured": {
			stop{members: 1, grace: grace, start: start, pod: "web-0", cold: []Claim{full(1e9)}, parallel: 4}, "10 to 50, 1 3 1"},
		"of one claim it is measured, of the other not": {
			stop{members: 1, together: true, start: start, pod: "web-0", cold: []Claim{used(1e9), full(2e9)}, warm: 1, parallel: 4},
			"20 to 30, 1 3 2"},
		"copies side by side take as long as the largest": {
			stop{members: 3, together: true, pod: "web-0", cold: []Claim{used(1e9), used(2e9), used(1e9)}, parallel: 4}, "together 20 to 20, 1 2 1"},
		"more of them than fit side by side": {
			stop{members: 4, together: true, pod: "web-0", cold: []Claim{used(1e9), used(1e9), used(1e9), used(1e9)}, parallel: 2},
			"together 20 to 20, 1 2 1"},
		"one at a time, each waits for its own copy": {
			stop{members: 4, pod: "web-0", cold: []Claim{used(1e9), used(1e9), used(1e9), used(1e9)}, parallel: 2}, "10 to 10, 1 2 1"},
		"no member runs": {
			stop{grace: grace, cold: []Claim{used(1e9)}, parallel: 4}, "none, 10 to 10, 0 1 1"},
	} {
		t.Run(name, func(t *testing.T) {
			s := row.stop.estimate()
			got := fmt.Sprintf("%d to %d, %d %d %d", s.From, s.To, len(s.Basis), len(s.Assumed), len(s.Besides))
			if s.Together {
				got = "together " + got
			}
			if s.None {
				got = "none, " + got
			}
			if got != row.want {
				t.Errorf("got %s, want %s: %+v", got, row.want, s)
			}
		})
	}
}

// TestNewestStart: the newest pod of the set that is ready, and whose containers were not started again.
func TestNewestStart(t *testing.T) {
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
		"two":                       {objects{pod(0, took(time.Minute)), pod(1)}, "web-1 10s"},
		"in another order":          {objects{pod(1), pod(0, took(time.Minute))}, "web-1 10s"},
		"the newest is not ready":   {objects{pod(0), pod(1, unready)}, "web-0 10s"},
		"the newest has crashed":    {objects{pod(0), pod(1, restarted)}, "web-0 10s"},
		"the newest ends":           {objects{pod(0), pod(1, build.Deleting())}, "web-0 10s"},
		"the newest is not the set": {objects{pod(0), pod(1, foreign)}, "web-0 10s"},
		"none":                      {objects{pod(0, unready)}, " 0s"},
		"a clock that went back":    {objects{pod(0, took(-time.Minute))}, "web-0 0s"},
	} {
		t.Run(name, func(t *testing.T) {
			name, start := newestStart(build.World(append(set(), row.pods...)...))
			if got := fmt.Sprint(name, " ", start); got != row.want {
				t.Errorf("got %s, want %s", got, row.want)
			}
		})
	}
}

func TestStopOfTheSetDependsOnStrategyAndOrder(t *testing.T) {
	parallel := build.Edit(func(s *appsv1.StatefulSet) { s.Spec.PodManagementPolicy = appsv1.ParallelPodManagement })
	rolling := build.Annotation(api.StrategyAnnotation, "rolling")
	short := build.Annotation(api.MaxStopAnnotation, "5s")
	for name, row := range map[string]struct {
		in   Input
		want string
	}{
		"every claim grows":               {given("data=128Mi", set(), claims(roomy), pods()), "true 0 0"},
		"only the template changes":       {given("data=128Mi", set(), nil, nil), "true 0 0"},
		"whole, in order":                 {given("data=128Mi", set(), claims("fixed"), pods()), "false 20 80"},
		"whole, in parallel":              {given("data=128Mi", set(parallel), claims("fixed"), pods()), "false 10 40"},
		"rolling":                         {given("data=128Mi", set(rolling), claims("fixed"), pods()), "false 10 100"},
		"rolling, with a limit":           {given("data=128Mi", set(rolling, short), claims("fixed"), pods()), "false 10 45"},
		"one member has been scaled away": {given("data=128Mi", set(build.Replicas(1)), claims("fixed"), objects{pod(0)}), "false 10 41"},
		"nothing to do":                   {given("data=64Mi", set(), claims("fixed"), pods()), "true 0 0"},
	} {
		t.Run(name, func(t *testing.T) {
			s := Look(row.in).Document(nil, nil).Stop
			if got := fmt.Sprint(s.None, s.From, s.To); got != row.want {
				t.Errorf("got %s, want %s", got, row.want)
			}
			if strings.HasPrefix(name, "every") != (s.None && len(s.Besides) == 1) {
				t.Errorf("besides %q", s.Besides)
			}
		})
	}
}
