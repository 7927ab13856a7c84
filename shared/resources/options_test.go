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

// said is a namespace's ConfigMap with the text about movers.
func said(text string) *corev1.ConfigMap {
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
		"nobody says anything":          {"", nil, resources.MoverOptions{}},
		"an empty annotation":           {" ", said(""), resources.MoverOptions{}},
		"a ConfigMap of something else": {"", &corev1.ConfigMap{Data: map[string]string{"other": "x: y"}}, resources.MoverOptions{}},
		"the set":                       {limit, nil, resources.MoverOptions{Resources: memory("2Gi")}},
		"the set, as JSON": {`{"priorityClassName":"low","tolerations":[{"key":"storage","operator":"Exists"}]}`, nil,
			resources.MoverOptions{PriorityClassName: "low", Tolerations: tolerant}},
		"the namespace": {"", said(limit), resources.MoverOptions{Resources: memory("2Gi")}},
		"both: each field is the set's": {"priorityClassName: low", said(limit + "\npriorityClassName: high\nserviceAccountName: copier"),
			resources.MoverOptions{Resources: memory("2Gi"), PriorityClassName: "low", ServiceAccountName: "copier"}},
		"a field is the set's as a whole": {limit, said("resources: {requests: {cpu: 2}}"), resources.MoverOptions{Resources: memory("2Gi")}},
		"the set wants no node selector": {"nodeSelector: {}", said("nodeSelector: {pool: movers}"),
			resources.MoverOptions{NodeSelector: map[string]string{}}},
		"the set wants no toleration": {"tolerations: []", said("tolerations: [{key: a}]"),
			resources.MoverOptions{Tolerations: []corev1.Toleration{}}},
		"the set says nothing of a field": {"nodeSelector:", said("nodeSelector: {pool: movers}"),
			resources.MoverOptions{NodeSelector: map[string]string{"pool": "movers"}}},
		"a secret for the mover's image": {"imagePullSecrets: [{name: mine}]", said("imagePullSecrets: [{name: ours}]"),
			resources.MoverOptions{ImagePullSecrets: []corev1.LocalObjectReference{{Name: "mine"}}}},
		"the namespace says it for others": {"imagePullSecrets: []", said("imagePullSecrets: [{name: ours}]"),
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

// TestI8MoverOptionsThatCannotBeRead: it is said where they are.
// Invariants: I8.
func TestI8MoverOptionsThatCannotBeRead(t *testing.T) {
	file := golden.Open(t)
	rows := map[string]struct{ own, config string }{
		"a field that there is not":               {"speed: high", ""},
		"no document":                             {"just words", ""},
		"a size that is none":                     {"resources: {limits: {memory: lots}}", ""},
		"a field twice":                           {"nodeSelector: {a: b}\nnodeSelector: {c: d}", ""},
		"what a mover decides itself":             {"securityContext: {runAsUser: 0}", ""},
		"its containers":                          {"containers: [{name: evil}]", ""},
		"a quantity that takes minutes":           {`resources: {limits: {memory: "1e-99999999"}}`, ""},
		"an anchor":                               {"nodeSelector: {a: &a b, c: *a}", ""},
		"the namespace's quantity, in minutes":    {"", `resources: {requests: {cpu: "1e-99999999"}}`},
		"the namespace's":                         {"", "speed: high"},
		"the namespace's, with one of the set's":  {"priorityClassName: low", "speed: high"},
		"the set's, with one of the namespace's ": {"speed: high", "priorityClassName: low"},
	}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		row := rows[name]
		t.Run(name, func(t *testing.T) {
			_, err := resources.MoverOptionsOf(build.Set("web", build.Annotation(api.MoverAnnotation, row.own)), said(row.config))
			if err == nil {
				t.Fatal("it is taken")
			}
			file.Entry(t, name, err.Error())
		})
	}
}

// TestMoverOptionsTakeTheWorkloadsPlace: but nothing else does.
func TestMoverOptionsTakeTheWorkloadsPlace(t *testing.T) {
	make := func(options resources.MoverOptions) corev1.PodSpec {
		return moves(func(m *resources.Mover) { m.Options = options }).Spec.Template.Spec
	}
	plain := make(resources.MoverOptions{})
	if plain.ServiceAccountName != "" || plain.PriorityClassName != "important" || plain.NodeSelector["pool"] != "storage" ||
		len(plain.Tolerations) != 1 || plain.ImagePullSecrets[0].Name != "registry" {
		t.Errorf("without options it is %+v", plain)
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
	if diff := cmp.Diff(*want, make(options)); diff != "" {
		t.Errorf("with all of them:\n%s", diff)
	}
	none := make(resources.MoverOptions{NodeSelector: map[string]string{}, Tolerations: []corev1.Toleration{}})
	if len(none.NodeSelector) != 0 || len(none.Tolerations) != 0 {
		t.Errorf("what is wished away is there: %+v", none)
	}
	made := make(options)
	made.NodeSelector["pool"], made.Containers[0].Resources.Limits[corev1.ResourceMemory] = "changed", resource.MustParse("1")
	if options.NodeSelector["pool"] != "movers" || options.Resources.Limits.Memory().String() != "2Gi" {
		t.Error("the options are changed with the pod")
	}
}

// TestMoverRunsWhereItsSourceIs: on that node, among those where the workload may run.
func TestMoverRunsWhereItsSourceIs(t *testing.T) {
	onNode := func(name string) []corev1.NodeSelectorRequirement {
		return []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{name}}}
	}
	exists := func(key string) []corev1.NodeSelectorRequirement {
		return []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpExists}}
	}
	with := func(change func(*corev1.PodSpec)) *appsv1.StatefulSet {
		return build.With(workload(), build.Edit(func(s *appsv1.StatefulSet) { change(&s.Spec.Template.Spec) }))
	}
	bare := with(func(p *corev1.PodSpec) { p.Affinity = nil })
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
		"anywhere": {bare, "", nil},
		"where the workload may, which keeps away from its own pods only itself": {workload(), "",
			&corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: required(corev1.NodeSelectorTerm{MatchExpressions: exists("disk")})}}},
		"a workload that says nothing of nodes": {onlyPods, "node-3", &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: required(corev1.NodeSelectorTerm{MatchFields: onNode("node-3")})}}},
		"on a node": {bare, "node-3", &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: required(corev1.NodeSelectorTerm{MatchFields: onNode("node-3")})}}},
		"on a node, whichever of its terms the workload meets there": {two, "node-3", &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: required(
				corev1.NodeSelectorTerm{MatchExpressions: exists("disk"), MatchFields: onNode("node-3")},
				corev1.NodeSelectorTerm{MatchFields: append(onNode("node-7"), onNode("node-3")...)}),
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{ssd}}}},
	} {
		t.Run(name, func(t *testing.T) {
			before := row.set.DeepCopy()
			job := moves(func(m *resources.Mover) { m.Set, m.Node = row.set, row.node })
			if diff := cmp.Diff(row.want, job.Spec.Template.Spec.Affinity); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(before, row.set); diff != "" {
				t.Errorf("the workload is changed:\n%s", diff)
			}
			if job.Spec.Template.Spec.NodeName != "" {
				t.Error("the scheduler is passed over, and nobody provisions a volume that waits for it")
			}
		})
	}
}

// TestClaimsOfAnotherMode: the temporary claim and its successor have the modes that are asked for, else those they had.
func TestClaimsOfAnotherMode(t *testing.T) {
	move := resize().Move("data-web-0")
	was := found().Spec.AccessModes
	for name, modes := range map[string][]corev1.PersistentVolumeAccessMode{"as it was": nil, "another": {corev1.ReadWriteMany},
		"two": {corev1.ReadWriteOnce, corev1.ReadOnlyMany}} {
		move.Modes = modes
		want := modes
		if want == nil {
			want = was
		}
		if diff := cmp.Diff(want, resources.MakeTargetClaim(found(), move, link(api.RoleTarget)).Spec.AccessModes); diff != "" {
			t.Errorf("%s: the temporary claim:\n%s", name, diff)
		}
		if diff := cmp.Diff(want, build.As[corev1.PersistentVolumeClaim](resources.MakeSuccessor(build.Raw(found()), volume("pv"), move.Target(),
			link(api.RoleSuccessor))).Spec.AccessModes); diff != "" {
			t.Errorf("%s: its successor:\n%s", name, diff)
		}
		templates := []api.TemplateTarget{{Name: "data", Size: resource.MustParse("128Mi"), Modes: modes}}
		made := build.As[appsv1.StatefulSet](resources.MakeSet(build.Raw(workload()), templates, resize()))
		if diff := cmp.Diff(want, made.Spec.VolumeClaimTemplates[0].Spec.AccessModes); diff != "" {
			t.Errorf("%s: the set's template:\n%s", name, diff)
		}
	}
}
