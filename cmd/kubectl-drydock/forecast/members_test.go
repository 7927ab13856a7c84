package forecast

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

func TestMembersAreInTheOrderInWhichTheyMove(t *testing.T) {
	rolling := build.Annotation(api.StrategyAnnotation, "rolling")
	primary := build.Annotation(api.PrimaryAnnotation, "role=primary")
	unready := build.Edit(func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse })
	onePodOnly := build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
	})
	leads := build.Label("role", "primary")
	for name, row := range map[string]struct {
		in   Input
		want string
	}{
		"whole: from the top":   {given("data=128Mi", set(), claims("fixed"), pods()), "1, 0"},
		"rolling: from the top": {given("data=128Mi", set(rolling), claims("fixed"), pods()), "1, 0"},
		"the primary comes last": {given("data=128Mi", set(rolling, primary), claims("fixed"), objects{pod(0), pod(1, leads)}),
			"0, 1 primary"},
		"one that is not ready is next": {given("data=128Mi", set(rolling), claims("fixed"), objects{pod(0, unready), pod(1)}), "0 unready, 1"},
		"one without a pod is first": {given("data=128Mi", set(rolling, build.Replicas(1)), claims("fixed"), objects{pod(0)}),
			"1 unready (it has no pod), 0"},
		"a wanted pod is awaited": {given("data=128Mi", set(rolling), claims("fixed"), objects{pod(0)}), "1 unready, 0"},
		"no second pod is allowed": {given("data=128Mi", set(), claims("fixed", onePodOnly), pods()),
			"1 (ReadWriteOncePod: no second pod may use claim data-web-1), 0 (ReadWriteOncePod: no second pod may use claim data-web-0)"},
		"claims that grow stop nobody": {given("data=128Mi", set(), claims(roomy), pods()), ""},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, m := range Look(row.in).Document(nil, nil).Members {
				text := fmt.Sprint(m.Ordinal)
				if m.Primary {
					text += " primary"
				}
				if !m.Ready {
					text += " unready"
				}
				if m.Cold != "" {
					text += " (" + m.Cold + ")"
				}
				got = append(got, text)
			}
			if words := strings.Join(got, ", "); words != row.want {
				t.Errorf("got  %s\nwant %s", words, row.want)
			}
		})
	}
}

func budget(name string, allows int32, selector *metav1.LabelSelector) policyv1.PodDisruptionBudget {
	return policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: name},
		Spec: policyv1.PodDisruptionBudgetSpec{Selector: selector}, Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allows}}
}

func TestBudgetsThatCountThePodsAreNamed(t *testing.T) {
	in := given("data=128Mi", set(), claims("fixed"), pods())
	in.Budgets = []policyv1.PodDisruptionBudget{
		budget("ours", 1, &metav1.LabelSelector{MatchLabels: in.Set.Spec.Template.Labels}),
		budget("everything", 1, &metav1.LabelSelector{}),
		budget("nothing", 1, nil),
		budget("others", 1, &metav1.LabelSelector{MatchLabels: map[string]string{"app": "another"}}),
		budget("unreadable", 1, &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Sounds"}}}),
	}
	d := Look(in).Document(nil, nil)
	var names []string
	for _, b := range d.Budgets {
		names = append(names, b.Name)
		if b.Asked {
			t.Errorf("with the strategy whole, budget %s is not asked", b.Name)
		}
	}
	if got := strings.Join(names, " "); got != "ours everything" {
		t.Errorf("got %s", got)
	}
}

// TestWhatMaySurpriseIsSaid: the manifest, budgets, the order of starts, and stops that grow with the data.
func TestWhatMaySurpriseIsSaid(t *testing.T) {
	rolling := build.Annotation(api.StrategyAnnotation, "rolling")
	parallel := build.Edit(func(s *appsv1.StatefulSet) { s.Spec.PodManagementPolicy = appsv1.ParallelPodManagement })
	three := func(options ...build.Option) Input {
		in := given("data=128Mi", set(append(options, build.Replicas(3))...), claims("fixed"), pods())
		in.Budgets = []policyv1.PodDisruptionBudget{budget("quorum", 1, &metav1.LabelSelector{})}
		return in
	}
	none := three(rolling, parallel)
	none.Budgets[0].Status.DisruptionsAllowed = 0
	for name, row := range map[string]struct {
		in        Input
		warnings  []string // a word of each
		suggested bool
	}{
		"whole":                     {three(), []string{"manifest"}, true},
		"whole, as somebody asks":   {three(build.Annotation(api.StrategyAnnotation, "whole")), []string{"manifest"}, false},
		"rolling, in order":         {three(rolling), []string{"manifest", "OrderedReady"}, false},
		"rolling, in parallel":      {three(rolling, parallel), []string{"manifest"}, false},
		"the budget allows nothing": {none, []string{"manifest", "would wait for it"}, false},
		"two replicas":              {given("data=128Mi", set(), claims("fixed"), pods()), []string{"manifest"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := Look(row.in).Document(nil, nil)
			if len(d.Warnings) != len(row.warnings) {
				t.Errorf("it warns %q, want %q", d.Warnings, row.warnings)
			}
			for _, word := range row.warnings {
				if !slices.ContainsFunc(d.Warnings, func(w string) bool { return strings.Contains(w, word) }) {
					t.Errorf("nothing about %s in %q", word, d.Warnings)
				}
			}
			if suggested := len(d.Suggestions) == 1 && strings.Contains(d.Suggestions[0], "resize-strategy=rolling"); suggested != row.suggested {
				t.Errorf("suggestions %q", d.Suggestions)
			}
		})
	}
}

func TestAskedStrategyIsForecast(t *testing.T) {
	in := given("data=128Mi", set(), claims("fixed"), pods())
	in.Ask.Strategy = "rolling"
	d := Look(in).Document(nil, nil)
	if d.Strategy != api.StrategyRolling || reasons(d.Before) != "NotRequested NotRequested" {
		t.Errorf("%s, before %s", d.Strategy, reasons(d.Before))
	}
	in.Ask.Strategy = "sideways"
	if d := Look(in).Document(nil, nil); d.Verdict != Refused || reasons(d.Refused) != "StrategyUnknown" {
		t.Errorf("%s: %s", d.Verdict, reasons(d.Refused))
	}
}
