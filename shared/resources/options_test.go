package resources_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/resources"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

// configMap returns a namespace's ConfigMap with the text as options for movers.
func configMap(text string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: api.MoverConfigMap},
		Data: map[string]string{api.MoverKey: text}}
}

func memory(limit string) *corev1.ResourceRequirements {
	return &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(limit)}}
}

func TestMoverOptions(t *testing.T) {
	const limit = "resources: {limits: {memory: 2Gi}}"
	tolerant := []corev1.Toleration{{Key: "storage", Operator: corev1.TolerationOpExists}}
	for name, row := range map[string]struct {
		own    string
		config *corev1.ConfigMap
		want   resources.MoverOptions
	}{
		"no options":                  {"", nil, resources.MoverOptions{}},
		"an empty annotation":         {" ", configMap(""), resources.MoverOptions{}},
		"a ConfigMap without the key": {"", &corev1.ConfigMap{Data: map[string]string{"other": "x: y"}}, resources.MoverOptions{}},
		"options of the set":          {limit, nil, resources.MoverOptions{Resources: memory("2Gi")}},
		"options of the set in JSON": {`{"priorityClassName":"low","tolerations":[{"key":"storage","operator":"Exists"}]}`, nil,
			resources.MoverOptions{PriorityClassName: "low", Tolerations: tolerant}},
		"options of the namespace": {"", configMap(limit), resources.MoverOptions{Resources: memory("2Gi")}},
		"both: the set's fields win": {"priorityClassName: low", configMap(limit + "\npriorityClassName: high\nserviceAccountName: copier"),
			resources.MoverOptions{Resources: memory("2Gi"), PriorityClassName: "low", ServiceAccountName: "copier"}},
		"a field is not merged": {limit, configMap("resources: {requests: {cpu: 2}}"), resources.MoverOptions{Resources: memory("2Gi")}},
		"the set removes the node selector": {"nodeSelector: {}", configMap("nodeSelector: {pool: movers}"),
			resources.MoverOptions{NodeSelector: map[string]string{}}},
		"the set removes the tolerations": {"tolerations: []", configMap("tolerations: [{key: a}]"),
			resources.MoverOptions{Tolerations: []corev1.Toleration{}}},
		"an empty field does not count": {"nodeSelector:", configMap("nodeSelector: {pool: movers}"),
			resources.MoverOptions{NodeSelector: map[string]string{"pool": "movers"}}},
		"the set has its own pull secret": {"imagePullSecrets: [{name: mine}]", configMap("imagePullSecrets: [{name: ours}]"),
			resources.MoverOptions{ImagePullSecrets: []corev1.LocalObjectReference{{Name: "mine"}}}},
		"the set removes the pull secrets": {"imagePullSecrets: []", configMap("imagePullSecrets: [{name: ours}]"),
			resources.MoverOptions{ImagePullSecrets: []corev1.LocalObjectReference{}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := resources.MoverOptionsOf(build.Set("web", build.Annotation(api.MoverAnnotation, row.own)), row.config)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestUnreadableMoverOptions: the error names the annotation or the ConfigMap.
// Invariants: I8.
func TestUnreadableMoverOptions(t *testing.T) {
	file := golden.Open(t)
	rows := map[string]struct{ own, config string }{
		"an unknown field":                      {"speed: high", ""},
		"a text that is no document":            {"just words", ""},
		"an invalid size":                       {"resources: {limits: {memory: lots}}", ""},
		"a duplicate field":                     {"nodeSelector: {a: b}\nnodeSelector: {c: d}", ""},
		"a field that is not configurable":      {"securityContext: {runAsUser: 0}", ""},
		"containers":                            {"containers: [{name: evil}]", ""},
		"a quantity that is expensive to parse": {`resources: {limits: {memory: "1e-99999999"}}`, ""},
		"an anchor":                             {"nodeSelector: {a: &a b, c: *a}", ""},
		"a quantity of the namespace that is expensive to parse":          {"", `resources: {requests: {cpu: "1e-99999999"}}`},
		"an unknown field of the namespace":                               {"", "speed: high"},
		"an unknown field of the namespace, and a valid field of the set": {"priorityClassName: low", "speed: high"},
		"an unknown field of the set, and a valid field of the namespace": {"speed: high", "priorityClassName: low"},
	}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		row := rows[name]
		t.Run(name, func(t *testing.T) {
			_, err := resources.MoverOptionsOf(build.Set("web", build.Annotation(api.MoverAnnotation, row.own)), configMap(row.config))
			if err == nil {
				t.Fatal("the options are accepted")
			}
			file.Entry(t, name, err.Error())
		})
	}
}

// TestMoverOptionsOverrideTheWorkload: options replace the values of the workload, and change nothing else.
func TestMoverOptionsOverrideTheWorkload(t *testing.T) {
	podWith := func(options resources.MoverOptions) corev1.PodSpec {
		return moverJob(func(m *resources.Mover) { m.Options = options }).Spec.Template.Spec
	}
	plain := podWith(resources.MoverOptions{})
	if plain.ServiceAccountName != "" || plain.PriorityClassName != "important" || plain.NodeSelector["pool"] != "storage" ||
		len(plain.Tolerations) != 1 || plain.ImagePullSecrets[0].Name != "registry" {
		t.Errorf("without options: %+v", plain)
	}
	options := resources.MoverOptions{Resources: memory("2Gi"), NodeSelector: map[string]string{"pool": "movers"},
		Tolerations:       []corev1.Toleration{{Key: "a"}, {Key: "b"}},
		PriorityClassName: "low", ServiceAccountName: "copier", ImagePullSecrets: []corev1.LocalObjectReference{{Name: "mine"}}}
	want := plain.DeepCopy()
	want.Containers[0].Resources.Limits[corev1.ResourceMemory] = resource.MustParse("2Gi")
	for i := range want.InitContainers {
		want.InitContainers[i].Resources.Limits[corev1.ResourceMemory] = resource.MustParse("2Gi")
	}
	want.NodeSelector, want.Tolerations = options.NodeSelector, options.Tolerations
	want.PriorityClassName, want.ServiceAccountName, want.ImagePullSecrets = "low", "copier", options.ImagePullSecrets
	if diff := cmp.Diff(*want, podWith(options)); diff != "" {
		t.Errorf("with all options:\n%s", diff)
	}
	none := podWith(resources.MoverOptions{NodeSelector: map[string]string{}, Tolerations: []corev1.Toleration{}})
	if len(none.NodeSelector) != 0 || len(none.Tolerations) != 0 {
		t.Errorf("node selector or tolerations are not removed: %+v", none)
	}
	pod := podWith(options)
	pod.NodeSelector["pool"], pod.Containers[0].Resources.Limits[corev1.ResourceMemory] = "changed", resource.MustParse("1")
	if options.NodeSelector["pool"] != "movers" || options.Resources.Limits.Memory().String() != "2Gi" {
		t.Error("a change of the pod changes the options")
	}
}

// TestMoverRunsOnTheNodeOfItsSource: the node must also match the workload's own rules.
func TestMoverRunsOnTheNodeOfItsSource(t *testing.T) {
	onNode := func(name string) []corev1.NodeSelectorRequirement {
		return []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{name}}}
	}
	exists := func(key string) []corev1.NodeSelectorRequirement {
		return []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpExists}}
	}
	with := func(change func(*corev1.PodSpec)) *appsv1.StatefulSet {
		return build.With(workload(), build.Edit(func(s *appsv1.StatefulSet) { change(&s.Spec.Template.Spec) }))
	}
	anywhere := with(func(p *corev1.PodSpec) { p.Affinity = nil })
	two := with(func(p *corev1.PodSpec) {
		p.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms = []corev1.NodeSelectorTerm{
			{MatchExpressions: exists("disk")}, {MatchFields: onNode("node-7")}}
		p.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.PreferredSchedulingTerm{{Weight: 5,
			Preference: corev1.NodeSelectorTerm{MatchExpressions: exists("ssd")}}}
	})
	onlyPods := with(func(p *corev1.PodSpec) { p.Affinity.NodeAffinity = nil })
	required := func(terms ...corev1.NodeSelectorTerm) *corev1.NodeSelector {
		return &corev1.NodeSelector{NodeSelectorTerms: terms}
	}
	ssd := corev1.PreferredSchedulingTerm{Weight: 5, Preference: corev1.NodeSelectorTerm{MatchExpressions: exists("ssd")}}
	for name, row := range map[string]struct {
		set  *appsv1.StatefulSet
		node string
		want *corev1.Affinity
	}{
		"no rules": {anywhere, "", nil},
		"the workload's node affinity, without its pod anti-affinity": {workload(), "",
			&corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: required(corev1.NodeSelectorTerm{MatchExpressions: exists("disk")})}}},
		"a node, and a workload without node affinity": {onlyPods, "node-3", &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: required(corev1.NodeSelectorTerm{MatchFields: onNode("node-3")})}}},
		"a node, and a workload without affinity": {anywhere, "node-3", &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: required(corev1.NodeSelectorTerm{MatchFields: onNode("node-3")})}}},
		"a node, and a workload with two terms": {two, "node-3", &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: required(
				corev1.NodeSelectorTerm{MatchExpressions: exists("disk"), MatchFields: onNode("node-3")},
				corev1.NodeSelectorTerm{MatchFields: append(onNode("node-7"), onNode("node-3")...)}),
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{ssd}}}},
	} {
		t.Run(name, func(t *testing.T) {
			before := row.set.DeepCopy()
			job := moverJob(func(m *resources.Mover) { m.Set, m.Node = row.set, row.node })
			if diff := cmp.Diff(row.want, job.Spec.Template.Spec.Affinity); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(before, row.set); diff != "" {
				t.Errorf("the workload is changed:\n%s", diff)
			}
			if job.Spec.Template.Spec.NodeName != "" {
				t.Error("spec.nodeName bypasses the scheduler, so no volume is provisioned for the pod")
			}
		})
	}
}

// TestClaimsWithOtherAccessModes: the temporary claim and its successor have the requested modes, or keep their present modes.
func TestClaimsWithOtherAccessModes(t *testing.T) {
	move := resize().Move("data-web-0")
	present := sourceClaim().Spec.AccessModes
	for name, modes := range map[string][]corev1.PersistentVolumeAccessMode{"no request": nil, "another mode": {corev1.ReadWriteMany},
		"two modes": {corev1.ReadWriteOnce, corev1.ReadOnlyMany}} {
		move.Modes = modes
		want := modes
		if want == nil {
			want = present
		}
		if diff := cmp.Diff(want, resources.MakeTargetClaim(sourceClaim(), move, link(api.RoleTarget)).Spec.AccessModes); diff != "" {
			t.Errorf("%s: the temporary claim:\n%s", name, diff)
		}
		if diff := cmp.Diff(want, build.Typed[corev1.PersistentVolumeClaim](resources.MakeSuccessor(build.Untyped(sourceClaim()), volume("pv"),
			move.Target(),
			link(api.RoleNewClaim))).Spec.AccessModes); diff != "" {
			t.Errorf("%s: its successor:\n%s", name, diff)
		}
		templates := []api.TemplateTarget{{Name: "data", Size: resource.MustParse("128Mi"), Modes: modes}}
		set := build.Typed[appsv1.StatefulSet](resources.MakeSet(build.Untyped(workload()), templates, resize()))
		if diff := cmp.Diff(want, set.Spec.VolumeClaimTemplates[0].Spec.AccessModes); diff != "" {
			t.Errorf("%s: the set's template:\n%s", name, diff)
		}
	}
}
