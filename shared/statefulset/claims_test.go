package statefulset_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/statefulset"
	"drydock.dev/test/kit/build"
)

func set(options ...build.Option) *appsv1.StatefulSet {
	return build.Set("web", append([]build.Option{build.Template("data", "64Mi", "fixed"), build.Template("logs", "32Mi", "fixed")},
		options...)...)
}

func TestParseClaimName(t *testing.T) {
	for name, want := range map[string]string{
		"data-web-0":                    "data 0",
		"logs-web-17":                   "logs 17",
		"data-web-2147483648":           "data 2147483648",
		"data-web-00":                   "",
		"data-web-007":                  "",
		"data-web-+1":                   "",
		"data-web--1":                   "",
		"data-web-0x1":                  "",
		"data-web-1e3":                  "",
		"data-web-١":                    "", // an Arabic digit
		"data-web-":                     "",
		"data-web":                      "",
		"data-web-0-1":                  "",
		"data-web-99999999999999999999": "",
		"data-webb-0":                   "",
		"data-we-0":                     "",
		"mydata-web-0":                  "",
		"tmp-web-0":                     "",
		"-web-0":                        "",
		"":                              "",
	} {
		template, ordinal, ok := statefulset.ParseClaimName(set(), name)
		got := ""
		if ok {
			got = fmt.Sprintf("%s %d", template, ordinal)
		}
		if got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	ab := build.Set("test", build.Template("a", "1Gi", "fixed"), build.Template("ab", "1Gi", "fixed"))
	if template, _, _ := statefulset.ParseClaimName(ab, "ab-test-0"); template != "ab" {
		t.Errorf("ab-test-0 belongs to template %q", template)
	}
	nested := build.Set("b-test", build.Template("a", "1Gi", "fixed"))
	if template, _, _ := statefulset.ParseClaimName(nested, "a-b-test-0"); template != "a" {
		t.Errorf("a-b-test-0 belongs to template %q of set b-test", template)
	}
}

func TestClaimsOf(t *testing.T) {
	elsewhere := build.With(build.Claim("data-web-1", "1Gi"), build.Edit(func(c *corev1.PersistentVolumeClaim) { c.Namespace = "payroll" }))
	var got []string
	claims := []*corev1.PersistentVolumeClaim{
		build.Claim("logs-web-3", "1Gi"), build.Claim("data-web-0", "1Gi"), elsewhere, build.Claim("data-api-0", "1Gi"),
	}
	for _, c := range statefulset.ClaimsOf(set(), claims) {
		got = append(got, fmt.Sprintf("%s/%d", c.Template, c.Ordinal))
	}
	if want := []string{"logs/3", "data/0"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestBelongs(t *testing.T) {
	none := set()
	none.Spec.Selector = nil
	for name, row := range map[string]struct {
		claim *corev1.PersistentVolumeClaim
		set   *appsv1.StatefulSet
		want  bool
	}{
		"the selector's labels":          {build.Claim("data-web-0", "1Gi"), set(), true},
		"the selector's labels and more": {build.Claim("data-web-0", "1Gi", build.Label("team", "x")), set(), true},
		"other labels":                   {build.Claim("data-web-0", "1Gi", build.Label("app", "api")), set(), false},
		"no labels":                      {build.Claim("data-web-0", "1Gi", build.Label("app", "")), set(), false},
		"owned by the set":               {build.Claim("data-web-0", "1Gi", build.ControlledBy("StatefulSet", "web")), set(), true},
		"owned by another set":           {build.Claim("data-web-0", "1Gi", build.ControlledBy("StatefulSet", "web-old")), set(), false},
		"owned by its pod":               {build.Claim("data-web-0", "1Gi", build.ControlledBy("Pod", "web-0")), set(), true},
		"a set that selects nothing":     {build.Claim("data-web-0", "1Gi"), none, false},
	} {
		if got := statefulset.Belongs(row.claim, row.set); got != row.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestConsumers(t *testing.T) {
	pods := []*corev1.Pod{
		build.PodOf("web", 0, "data", "logs"), build.PodOf("web", 1, "data"),
		build.Pod("pending", []string{"data-web-0"}, build.InPhase(corev1.PodPending)),
		build.Pod("unknown", []string{"x", "data-web-0"}, build.InPhase(corev1.PodUnknown)),
		build.Pod("done", []string{"data-web-0"}, build.InPhase(corev1.PodSucceeded)),
		build.Pod("failed", []string{"data-web-0"}, build.InPhase(corev1.PodFailed)),
		build.Pod("going", []string{"data-web-0"}, build.Deleting()),
		build.Pod("none", nil),
	}
	var got []string
	for _, p := range statefulset.Consumers(pods, "data-web-0") {
		got = append(got, p.Name)
	}
	if want := []string{"web-0", "pending", "unknown", "going"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestIsPodOf: the UID of the controlling set decides.
// Invariants: I3.
func TestIsPodOf(t *testing.T) {
	orphan := build.With(build.PodOf("web", 0, "data"), build.Edit(func(p *corev1.Pod) { p.OwnerReferences = nil }))
	everything := set()
	everything.Spec.Selector = &metav1.LabelSelector{}
	for name, row := range map[string]struct {
		pod  *corev1.Pod
		set  *appsv1.StatefulSet
		want bool
	}{
		"controlled by the set":                   {build.PodOf("web", 0, "data"), set(), true},
		"controlled by another set with the name": {build.PodOf("web", 0, "data"), set(build.UID("uid-2")), false},
		"controlled by a Job": {
			build.Pod("web-0", nil, build.Label("app", "web"), build.ControlledBy("Job", "x")), set(), false,
		},
		"orphaned and selected":             {orphan, set(), true},
		"orphaned and not selected":         {build.With(orphan.DeepCopy(), build.Label("app", "api")), set(), false},
		"an empty selector selects nothing": {orphan, everything, false},
	} {
		if got := statefulset.IsPodOf(row.pod, row.set); got != row.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestLagsAndDiffers(t *testing.T) {
	target := func(size, class string) api.Target { return api.Target{Size: resource.MustParse(size), Class: class} }
	for name, row := range map[string]struct {
		target        api.Target
		lags, differs bool
	}{
		"the same":                             {target("64Mi", "fixed"), false, false},
		"the same, in another unit":            {target("65536Ki", ""), false, false},
		"larger":                               {target("65Mi", ""), true, true},
		"smaller, and the target is not exact": {target("63Mi", ""), false, false},
		"smaller, and the target is exact":     {api.Target{Size: resource.MustParse("63Mi"), Exact: true}, true, true},
		"another class":                        {target("64Mi", "fast"), true, true},
		"no class keeps the present class":     {target("64Mi", ""), false, false},
	} {
		if got := statefulset.NeedsChange(build.Claim("data-web-0", "64Mi"), row.target); got != row.lags {
			t.Errorf("%s: lags %t", name, got)
		}
		if got := statefulset.TemplateNeedsChange(set(), "data", row.target); got != row.differs {
			t.Errorf("%s: differs %t", name, got)
		}
	}
	if statefulset.TemplateNeedsChange(set(), "none", target("1Gi", "")) {
		t.Error("a template that does not exist differs")
	}
}

func TestDefaultsOfAStatefulSetAreThoseOfKubernetes(t *testing.T) {
	bare := &appsv1.StatefulSet{}
	if statefulset.Replicas(bare) != 1 || statefulset.WhenScaled(bare) != statefulset.Retain ||
		statefulset.GracePeriod(bare) != 30*time.Second || statefulset.Managed(bare) || statefulset.Controller(bare) != nil {
		t.Error("absent values have other defaults in Kubernetes")
	}
	full := set(build.Replicas(0), build.WhenScaled("Delete"), build.ControlledBy("Database", "main"), build.Edit(func(s *appsv1.StatefulSet) {
		s.Spec.Template.Spec.TerminationGracePeriodSeconds = ptr.To[int64](5)
	}))
	if statefulset.Replicas(full) != 0 || statefulset.WhenScaled(full) != "Delete" || statefulset.GracePeriod(full) != 5*time.Second ||
		!statefulset.Managed(full) || statefulset.Controller(full).Name != "main" {
		t.Error("present values do not count")
	}
}

func TestReadyAndAtZero(t *testing.T) {
	for name, row := range map[string]struct {
		set           *appsv1.StatefulSet
		ready, atZero bool
	}{
		"three of three":                   {set(build.Replicas(3)), true, false},
		"two of three ready":               {set(build.Replicas(3), build.ReplicaCounts(3, 2)), false, false},
		"one replica too many":             {set(build.Replicas(3), build.ReplicaCounts(4, 3)), false, false},
		"spec not observed":                {set(build.Replicas(3), build.NotObserved()), false, false},
		"zero of zero":                     {set(build.Replicas(0)), true, true},
		"one replica left of zero":         {set(build.Replicas(0), build.ReplicaCounts(1, 0)), false, false},
		"zero replicas, spec not observed": {set(build.Replicas(0), build.NotObserved()), false, false},
	} {
		if got := statefulset.Ready(row.set); got != row.ready {
			t.Errorf("%s: ready %t", name, got)
		}
		if got := statefulset.AtZero(row.set); got != row.atZero {
			t.Errorf("%s: at zero %t", name, got)
		}
	}
}
