package resources_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/resources"
	"drydock.dev/test/kit/build"
)

// demandingSet returns a set with anti-affinity, topology spread, affinity to a cache, and large requests.
func demandingSet() *appsv1.StatefulSet {
	own := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	cache := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "cache"}}
	return build.With(workload(), build.Edit(func(s *appsv1.StatefulSet) {
		s.Spec.Template.Labels = map[string]string{"app": "web"}
		pod := &s.Spec.Template.Spec
		pod.RuntimeClassName, pod.SchedulerName = ptr.To("sealed"), "storage-scheduler"
		pod.Affinity.PodAffinity = &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: "zone", LabelSelector: cache}}}
		pod.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: "kubernetes.io/hostname", LabelSelector: own,
				MatchLabelKeys: []string{"controller-revision-hash"}}},
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
				{Weight: 7, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: "zone", LabelSelector: own}},
				{Weight: 3, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: "zone", LabelSelector: cache}}}}
		pod.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{
			{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: own,
				MatchLabelKeys: []string{"controller-revision-hash"}},
			{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: cache}}
		requests := func(cpu, memory string) corev1.ResourceRequirements {
			return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu),
				corev1.ResourceMemory: resource.MustParse(memory)}}
		}
		pod.Containers = []corev1.Container{{Name: "db", Resources: requests("2", "40Gi")}, {Name: "agent", Resources: requests("1", "1Gi")}}
		pod.InitContainers = []corev1.Container{{Name: "seed", Resources: requests("9", "1Gi")},
			{Name: "sidecar", Resources: requests("1", "1Gi"), RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}}
	}))
}

// TestFirstMoverIsPlacedLikeItsMember: the volume is provisioned on the mover's node, and the member has to follow it.
func TestFirstMoverIsPlacedLikeItsMember(t *testing.T) {
	set := demandingSet()
	before := set.DeepCopy()
	templateOf := func(first bool, options resources.MoverOptions) corev1.PodTemplateSpec {
		return moverJob(func(m *resources.Mover) { m.Set, m.SelectsNode, m.Options = set, first, options }).Spec.Template
	}
	template := templateOf(true, resources.MoverOptions{})
	pod := template.Spec
	moversOf := func(op metav1.LabelSelectorOperator, values ...string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{api.OperationLabel: build.ID},
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: api.MemberLabel, Operator: op, Values: values}}}
	}
	others, all := moversOf(metav1.LabelSelectorOpNotIn, "web-0"), moversOf(metav1.LabelSelectorOpExists)
	want := set.Spec.Template.Spec.Affinity.DeepCopy()
	want.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0] = corev1.PodAffinityTerm{TopologyKey: "kubernetes.io/hostname",
		LabelSelector: others}
	want.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution[0].PodAffinityTerm.LabelSelector = others
	if diff := cmp.Diff(want, pod.Affinity); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule,
		LabelSelector: all}}, pod.TopologySpreadConstraints); diff != "" {
		t.Error(diff)
	}
	got := pod.Containers[0].Resources
	if got.Requests.Cpu().String() != "9" || got.Requests.Memory().String() != "42Gi" || got.Limits.Memory().String() != "42Gi" {
		t.Errorf("the mover requests %v", got)
	}
	if *pod.RuntimeClassName != "sealed" || pod.SchedulerName != "storage-scheduler" || template.Labels[api.MemberLabel] != "web-0" {
		t.Errorf("class %v, scheduler %s, labels %v", pod.RuntimeClassName, pod.SchedulerName, template.Labels)
	}
	if diff := cmp.Diff(before, set); diff != "" {
		t.Errorf("the workload is changed:\n%s", diff)
	}

	later := templateOf(false, resources.MoverOptions{})
	if p := later.Spec; p.Affinity.PodAffinity != nil || p.Affinity.PodAntiAffinity != nil || p.TopologySpreadConstraints != nil ||
		p.RuntimeClassName != nil ||
		p.SchedulerName != "storage-scheduler" || p.Containers[0].Resources.Requests.Cpu().String() != "100m" ||
		later.Labels[api.MemberLabel] != "" {
		t.Errorf("a later mover follows its volume, but has rules of the workload: %+v", p)
	}
	own := templateOf(true, resources.MoverOptions{RuntimeClassName: "plain", SchedulerName: "default-scheduler",
		Resources: &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}}}).Spec
	if *own.RuntimeClassName != "plain" || own.SchedulerName != "default-scheduler" ||
		own.Containers[0].Resources.Requests.Memory().String() != "1Gi" {
		t.Errorf("the user's options do not override the workload: %+v", own)
	}
}

// TestMoverResourcesAreMerged: defaults stay, unless they contradict the user's resources.
func TestMoverResourcesAreMerged(t *testing.T) {
	list := func(pairs ...string) corev1.ResourceList {
		l := corev1.ResourceList{}
		for i := 0; i < len(pairs); i += 2 {
			l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
		}
		return l
	}
	for name, row := range map[string]struct{ requests, limits, wantRequests, wantLimits corev1.ResourceList }{
		"a CPU limit, for example for a quota": {nil, list("cpu", "2"), list("cpu", "100m", "memory", "64Mi"),
			list("cpu", "2", "memory", "1Gi")},
		"a limit below the default request": {nil, list("cpu", "50m"), list("cpu", "50m", "memory", "64Mi"), list("cpu", "50m", "memory", "1Gi")},
		"a request above the default limit": {list("memory", "4Gi"), nil, list("cpu", "100m", "memory", "4Gi"), list("memory", "4Gi")},
		"a request and a limit": {list("memory", "2Gi"), list("memory", "3Gi"), list("cpu", "100m", "memory", "2Gi"),
			list("memory", "3Gi")},
		"another resource": {nil, list("ephemeral-storage", "1Gi"), list("cpu", "100m", "memory", "64Mi"),
			list("memory", "1Gi", "ephemeral-storage", "1Gi")},
		"a limit below a request: the user's own mistake": {list("cpu", "2"), list("cpu", "1"), list("cpu", "2", "memory", "64Mi"),
			list("memory", "1Gi", "cpu", "1")},
	} {
		t.Run(name, func(t *testing.T) {
			options := resources.MoverOptions{Resources: &corev1.ResourceRequirements{Requests: row.requests, Limits: row.limits}}
			got := moverJob(func(m *resources.Mover) { m.Options = options }).Spec.Template.Spec.Containers[0].Resources
			if diff := cmp.Diff(corev1.ResourceRequirements{Requests: row.wantRequests, Limits: row.wantLimits}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestLabelsOfMoverPod: the user's labels override the defaults, and Drydock's labels override the user's.
func TestLabelsOfMoverPod(t *testing.T) {
	options := resources.MoverOptions{
		Labels:      map[string]string{"sidecar.istio.io/inject": "true", "team": "data", api.OperationLabel: "forged", api.MemberLabel: "web-9"},
		Annotations: map[string]string{"linkerd.io/inject": "enabled", "note": "x", api.OperationAnnotation: "{}"}}
	job := moverJob(func(m *resources.Mover) { m.Options = options })
	pod := job.Spec.Template.ObjectMeta
	for key, want := range map[string]string{"sidecar.istio.io/inject": "true", "team": "data", api.OperationLabel: build.ID,
		api.MemberLabel: "", "kuma.io/sidecar-injection": "disabled"} {
		if pod.Labels[key] != want {
			t.Errorf("label %s is %q, want %q", key, pod.Labels[key], want)
		}
	}
	for key, want := range map[string]string{"linkerd.io/inject": "enabled", "note": "x", "karpenter.sh/do-not-disrupt": "true",
		"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"} {
		if pod.Annotations[key] != want {
			t.Errorf("annotation %s is %q, want %q", key, pod.Annotations[key], want)
		}
	}
	if l, err := api.LoadLink(&job.Spec.Template.ObjectMeta); err != nil || l.Operation != build.ID || len(job.Annotations) != 1 {
		t.Errorf("link %v, %v; the Job has %v", l, err, job.Annotations)
	}
}

// TestMoverTakesCommonSettingsOfContainers: a setting of all containers applies, even if the pod has none.
func TestMoverTakesCommonSettingsOfContainers(t *testing.T) {
	level := &corev1.SELinuxOptions{Level: "s0:c1,c2"}
	set := func(own ...*corev1.SecurityContext) *appsv1.StatefulSet {
		s := build.Set("web")
		s.Spec.Template.Spec.SecurityContext, s.Spec.Template.Spec.Containers = &corev1.PodSecurityContext{RunAsGroup: ptr.To[int64](5)}, nil
		for _, c := range own {
			s.Spec.Template.Spec.Containers = append(s.Spec.Template.Spec.Containers, corev1.Container{SecurityContext: c})
		}
		return s
	}
	both := &corev1.SecurityContext{RunAsUser: ptr.To[int64](7), RunAsGroup: ptr.To[int64](8), SELinuxOptions: level}
	for name, row := range map[string]struct {
		set   *appsv1.StatefulSet
		root  bool
		group int64
		level *corev1.SELinuxOptions
	}{
		"all containers":                   {set(both, both.DeepCopy()), false, 8, level},
		"all containers, and a root mover": {set(both, both.DeepCopy()), true, 0, level},
		"one of two containers":            {set(both, &corev1.SecurityContext{RunAsUser: ptr.To[int64](7)}), false, 5, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := moverJob(func(m *resources.Mover) { m.Set, m.Root = row.set, row.root }).Spec.Template.Spec.SecurityContext
			if *got.RunAsGroup != row.group || !cmp.Equal(got.SELinuxOptions, row.level) {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestRootNeedsNamespaceAndOptions: the options can forbid root, for example on NFS with root_squash.
func TestRootNeedsNamespaceAndOptions(t *testing.T) {
	for _, row := range []struct {
		option          *bool
		namespace, want bool
	}{{nil, true, true}, {nil, false, false}, {ptr.To(false), true, false}, {ptr.To(true), true, true}, {ptr.To(true), false, false}} {
		if got := (resources.MoverOptions{Root: row.option}).RootAllowed(row.namespace); got != row.want {
			t.Errorf("%+v: %t", row, got)
		}
	}
}
