package statefulset

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

func zones(values ...string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{oneOf("zone", values)}}
}

func requires(key string, operator corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: operator, Values: values}}}
}

func TestNodesAreApartOnlyIfCertain(t *testing.T) {
	named := func(name string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{oneOf("metadata.name", []string{name})}}
	}
	for name, row := range map[string]struct {
		a, b Nodes
		want bool
	}{
		"all nodes and one zone":              {nil, Nodes{zones("a")}, false},
		"one zone and all nodes":              {Nodes{zones("a")}, nil, false},
		"the same zone":                       {Nodes{zones("a")}, Nodes{zones("a")}, false},
		"zones that overlap":                  {Nodes{zones("a", "b")}, Nodes{zones("b", "c")}, false},
		"two zones":                           {Nodes{zones("a")}, Nodes{zones("b")}, true},
		"one of several terms fits":           {Nodes{zones("a"), zones("b")}, Nodes{zones("c"), zones("b")}, false},
		"none of several terms fits":          {Nodes{zones("a"), zones("b")}, Nodes{zones("c"), zones("d")}, true},
		"different keys may be the same node": {Nodes{zones("a")}, Nodes{requires("rack", corev1.NodeSelectorOpIn, "7")}, false},
		"two nodes by name":                   {Nodes{named("n1")}, Nodes{named("n2")}, true},
		"a zone, and all but this zone":       {Nodes{zones("a")}, Nodes{requires("zone", corev1.NodeSelectorOpNotIn, "a")}, true},
		"all but a zone, and two zones":       {Nodes{requires("zone", corev1.NodeSelectorOpNotIn, "a")}, Nodes{zones("a", "b")}, false},
		"a zone, and nodes without a zone":    {Nodes{zones("a")}, Nodes{requires("zone", corev1.NodeSelectorOpDoesNotExist)}, true},
		"nodes with a zone, and nodes without": {Nodes{requires("zone", corev1.NodeSelectorOpExists)},
			Nodes{requires("zone", corev1.NodeSelectorOpDoesNotExist)}, true},
		"an operator that is not evaluated": {Nodes{zones("7")}, Nodes{requires("zone", corev1.NodeSelectorOpGt, "9")}, false},
		"two exclusions may leave a node in both": {Nodes{requires("zone", corev1.NodeSelectorOpNotIn, "a")},
			Nodes{requires("zone", corev1.NodeSelectorOpNotIn, "b")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := row.a.Disjoint(row.b); got != row.want || row.b.Disjoint(row.a) != row.want {
				t.Errorf("%s and %s: apart %v, in reverse order %v, want %v", row.a, row.b, got, row.b.Disjoint(row.a), row.want)
			}
		})
	}
}

func TestNodesOfPodsCombinesSelectorAndAffinity(t *testing.T) {
	pod := &corev1.PodSpec{NodeSelector: map[string]string{"disk": "fast", "arch": "arm"},
		Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{zones("a"),
				zones("b")}}}}}
	const want = "zone In a and arch In arm and disk In fast, or zone In b and arch In arm and disk In fast"
	for range 2 { // the first call changes nothing
		if got := NodesOfPods(pod).String(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	if got := NodesOfPods(&corev1.PodSpec{NodeSelector: map[string]string{"disk": "fast"}}).String(); got != "disk In fast" {
		t.Errorf("by selector alone: %s", got)
	}
	if NodesOfPods(&corev1.PodSpec{}) != nil || NodesOfVolume(&corev1.PersistentVolume{}) != nil ||
		NodesOfClass(&storagev1.StorageClass{}) != nil || NodesOfClass(nil) != nil {
		t.Error("no restriction does not mean all nodes")
	}
}
