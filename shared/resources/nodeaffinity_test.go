package resources

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/statefulset"
)

// TestRequireNodes: a pod may run only where its own affinity and the volumes allow it.
func TestRequireNodes(t *testing.T) {
	in := func(values ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpIn,
			Values: values}}}
	}
	both := func(a, b corev1.NodeSelectorTerm) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: append(append([]corev1.NodeSelectorRequirement{}, a.MatchExpressions...),
			b.MatchExpressions...)}
	}
	empty := corev1.NodeSelectorTerm{}
	for name, row := range map[string]struct {
		has   []corev1.NodeSelectorTerm
		nodes statefulset.Nodes
		want  []corev1.NodeSelectorTerm
	}{
		"any node reaches the volume": {[]corev1.NodeSelectorTerm{in("a")}, nil, []corev1.NodeSelectorTerm{in("a")}},
		"the pod has no affinity":     {nil, statefulset.Nodes{in("a"), in("b")}, []corev1.NodeSelectorTerm{in("a"), in("b")}},
		"both limit the nodes": {[]corev1.NodeSelectorTerm{in("a"), in("b")}, statefulset.Nodes{in("b", "c")},
			[]corev1.NodeSelectorTerm{both(in("a"), in("b", "c")), both(in("b"), in("b", "c"))}},
		"an empty term matches no node": {[]corev1.NodeSelectorTerm{empty, in("a")}, statefulset.Nodes{in("a")},
			[]corev1.NodeSelectorTerm{both(in("a"), in("a"))}},
	} {
		pod := &corev1.PodSpec{}
		if row.has != nil {
			affinityOf(pod).RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: row.has}
		}
		requireNodes(pod, row.nodes)
		got, _ := json.Marshal(affinityOf(pod).RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms)
		if want, _ := json.Marshal(row.want); string(got) != string(want) {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
