package resources

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/statefulset"
)

// requireNode makes the scheduler put the pod on this node. A volume with the binding mode WaitForFirstConsumer is provisioned there.
func requireNode(pod *corev1.PodSpec, node string) {
	affinity := affinityOf(pod)
	required := affinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil || len(required.NodeSelectorTerms) == 0 {
		required = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{}}}
	}
	for i := range required.NodeSelectorTerms { // the scheduler needs only one matching term
		required.NodeSelectorTerms[i].MatchFields = append(required.NodeSelectorTerms[i].MatchFields, nodeIs(node))
	}
	affinity.RequiredDuringSchedulingIgnoredDuringExecution = required
}

func nodeIs(node string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}
}

func affinityOf(pod *corev1.PodSpec) *corev1.NodeAffinity {
	if pod.Affinity == nil {
		pod.Affinity = &corev1.Affinity{}
	}
	if pod.Affinity.NodeAffinity == nil {
		pod.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	return pod.Affinity.NodeAffinity
}

// requireNodes makes the scheduler put the pod on one of these nodes. No terms allow every node, an empty term allows none.
func requireNodes(pod *corev1.PodSpec, nodes statefulset.Nodes) {
	if len(nodes) == 0 {
		return
	}
	affinity := affinityOf(pod)
	required := affinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil || len(required.NodeSelectorTerms) == 0 {
		affinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: nodes}
		return
	}
	var both []corev1.NodeSelectorTerm
	for _, a := range required.NodeSelectorTerms {
		for _, b := range nodes {
			if !isEmptyTerm(a) && !isEmptyTerm(b) {
				both = append(both, corev1.NodeSelectorTerm{MatchExpressions: slices.Concat(a.MatchExpressions, b.MatchExpressions),
					MatchFields: slices.Concat(a.MatchFields, b.MatchFields)})
			}
		}
	}
	if len(both) > 0 {
		required.NodeSelectorTerms = both
	}
}

func isEmptyTerm(t corev1.NodeSelectorTerm) bool {
	return len(t.MatchExpressions)+len(t.MatchFields) == 0
}
