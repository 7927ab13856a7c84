package forecast

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

func TestMembersAreInTheOrderOfTheirMoves(t *testing.T) {
	rolling := build.Annotation(api.StrategyAnnotation, "rolling")
	primary := build.Annotation(api.PrimaryAnnotation, "role=primary")
	unready := build.Edit(func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse })
	onePodOnly := build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
	})
	leads := build.Label("role", "primary")
	file := golden.Open(t)
	for _, row := range []struct {
		situation string
		in        Input
	}{
		{"whole: the highest ordinal is first", given("data=128Mi", set(), claims("fixed"), pods())},
		{"rolling: the highest ordinal is first", given("data=128Mi", set(rolling), claims("fixed"), pods())},
		{"rolling: the primary is last", given("data=128Mi", set(rolling, primary), claims("fixed"), objects{pod(0), pod(1, leads)})},
		{"rolling: a member that is not ready comes first", given("data=128Mi", set(rolling), claims("fixed"), objects{pod(0, unready), pod(1)})},
		{"rolling: a member beyond the replicas comes first", given("data=128Mi", set(rolling, build.Replicas(1)), claims("fixed"),
			objects{pod(0)})},
		{"rolling: the pod of a member does not exist yet", given("data=128Mi", set(rolling), claims("fixed"), objects{pod(0)})},
		{"the access mode allows no second pod", given("data=128Mi", set(), claims("fixed", onePodOnly), pods())},
		{"the set wants no first pass", given("data=128Mi", set(build.Annotation(api.FirstPassAnnotation, "off")), claims("fixed"), pods())},
		{"claims that grow stop no member", given("data=128Mi", set(), claims(roomy), pods())},
	} {
		var lines []string
		for _, m := range New(row.in).Document(nil, nil).Members {
			line := fmt.Sprint(m.Ordinal)
			if m.Primary {
				line += " primary"
			}
			if !m.Ready {
				line += " not ready"
			}
			if m.NoFirstPass != "" {
				line += " (" + m.NoFirstPass + ")"
			}
			lines = append(lines, line)
		}
		if len(lines) == 0 {
			lines = append(lines, "none")
		}
		file.Entry(t, row.situation, strings.Join(lines, "\n"))
	}
}

func budget(name string, allows int32, selector *metav1.LabelSelector) policyv1.PodDisruptionBudget {
	return policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: name},
		Spec: policyv1.PodDisruptionBudgetSpec{Selector: selector}, Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allows}}
}

func TestBudgetsOfTheSetsPodsAreFound(t *testing.T) {
	in := given("data=128Mi", set(), claims("fixed"), pods())
	in.Budgets = []policyv1.PodDisruptionBudget{
		budget("ours", 1, &metav1.LabelSelector{MatchLabels: in.Set.Spec.Template.Labels}),
		budget("everything", 1, &metav1.LabelSelector{}),
		budget("nothing", 1, nil),
		budget("others", 1, &metav1.LabelSelector{MatchLabels: map[string]string{"app": "another"}}),
		budget("unreadable", 1, &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Sounds"}}}),
	}
	d := New(in).Document(nil, nil)
	var names []string
	for _, b := range d.Budgets {
		names = append(names, b.Name)
		if b.Enforced {
			t.Errorf("budget %s is asked, although the strategy is whole", b.Name)
		}
	}
	if got := strings.Join(names, " "); got != "ours everything" {
		t.Errorf("got %s", got)
	}
}

// TestPlanWarnsOfSurprises: manifests, budgets, the order of starts, and stops that grow with the data.
func TestPlanWarnsOfSurprises(t *testing.T) {
	rolling := build.Annotation(api.StrategyAnnotation, "rolling")
	parallel := build.Edit(func(s *appsv1.StatefulSet) { s.Spec.PodManagementPolicy = appsv1.ParallelPodManagement })
	three := func(options ...build.Option) Input {
		in := given("data=128Mi", set(append(options, build.Replicas(3))...), claims("fixed"), pods())
		in.Budgets = []policyv1.PodDisruptionBudget{budget("quorum", 1, &metav1.LabelSelector{})}
		return in
	}
	exhausted := three(rolling, parallel)
	exhausted.Budgets[0].Status.DisruptionsAllowed = 0
	file := golden.Open(t)
	for _, row := range []struct {
		situation   string
		in          Input
		suggestions int
	}{
		{"whole, by default", three(), 1},
		{"whole, by the annotation", three(build.Annotation(api.StrategyAnnotation, "whole")), 0},
		{"rolling, OrderedReady", three(rolling), 0},
		{"rolling, Parallel", three(rolling, parallel), 0},
		{"the budget allows no disruption", exhausted, 0},
		{"two replicas", given("data=128Mi", set(), claims("fixed"), pods()), 0},
	} {
		d := New(row.in).Document(nil, nil)
		if len(d.Suggestions) != row.suggestions {
			t.Errorf("%s: %d suggestions, want %d", row.situation, len(d.Suggestions), row.suggestions)
		}
		file.Entry(t, row.situation, d.rendered())
	}
}

func TestStrategyOfTheFlagIsForecast(t *testing.T) {
	in := given("data=128Mi", set(), claims("fixed"), pods())
	in.Overrides.Strategy = "rolling"
	d := New(in).Document(nil, nil)
	if d.Strategy != api.StrategyRolling || reasons(d.Conditions) != "NotRequested NotRequested" {
		t.Errorf("%s, before %s", d.Strategy, reasons(d.Conditions))
	}
	in.Overrides.Strategy = "sideways"
	if d := New(in).Document(nil, nil); d.Verdict != Refused || reasons(d.Refused) != "StrategyUnknown" {
		t.Errorf("%s: %s", d.Verdict, reasons(d.Refused))
	}
}

// TestPlanWarnsOfMaxStop: max-stop does not allow the whole copy, which is made while the member is stopped if its node refuses a mover.
func TestPlanWarnsOfMaxStop(t *testing.T) {
	off, short := build.Annotation(api.FirstPassAnnotation, "off"), build.Annotation(api.MaxStopAnnotation, "100ms")
	long := build.Annotation(api.MaxStopAnnotation, "1m")
	const undone = "It would be cancelled after 200ms, so it does not begin: raise " + api.MaxStopAnnotation
	for name, row := range map[string]struct {
		options []build.Option
		want    int // warnings of a stop that is undone
	}{
		"a node may refuse a mover":         {[]build.Option{short}, 1},
		"the set wants no first pass":       {[]build.Option{short, off}, 2},
		"a longer stop is allowed":          {[]build.Option{long, off}, 0},
		"the length of a stop has no limit": {[]build.Option{off}, 0},
	} {
		warnings := strings.Join(New(given("data=128Mi", set(row.options...), claims("fixed"), pods())).Document(nil, nil).Warnings, "\n")
		if got := strings.Count(warnings, undone); got != row.want {
			t.Errorf("%s: %d warnings, want %d:\n%s", name, got, row.want, warnings)
		}
	}
}
