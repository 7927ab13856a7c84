package resources

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/statefulset"
)

// placeLikeMember makes the scheduler select a node for the mover as it would for the member. A volume with the binding mode
// WaitForFirstConsumer is provisioned on the mover's node, and the member has to follow it. Rules between members become rules between
// movers.
func (m Mover) placeLikeMember(pod *corev1.PodSpec) {
	workload := &m.Set.Spec.Template.Spec
	pod.RuntimeClassName = workload.RuntimeClassName // admission applies its node selector and tolerations
	pod.TopologySpreadConstraints = m.moverSpread(workload.TopologySpreadConstraints)
	raiseRequests(&pod.Containers[0].Resources, workload)
	if workload.Affinity == nil {
		return
	}
	if pod.Affinity == nil {
		pod.Affinity = &corev1.Affinity{}
	}
	if near := workload.Affinity.PodAffinity.DeepCopy(); near != nil {
		m.selectMovers(near.RequiredDuringSchedulingIgnoredDuringExecution, metav1.LabelSelectorOpExists)
		m.selectMoversWeighted(near.PreferredDuringSchedulingIgnoredDuringExecution, metav1.LabelSelectorOpExists)
		pod.Affinity.PodAffinity = near
	}
	if apart := workload.Affinity.PodAntiAffinity.DeepCopy(); apart != nil {
		m.selectMovers(apart.RequiredDuringSchedulingIgnoredDuringExecution, metav1.LabelSelectorOpNotIn)
		m.selectMoversWeighted(apart.PreferredDuringSchedulingIgnoredDuringExecution, metav1.LabelSelectorOpNotIn)
		pod.Affinity.PodAntiAffinity = apart
	}
}

// selectMovers makes terms that select the set's members select the movers of this operation instead. Terms for other workloads stay.
func (m Mover) selectMovers(terms []corev1.PodAffinityTerm, members metav1.LabelSelectorOperator) {
	for i := range terms {
		if m.selectsMembers(terms[i].LabelSelector) {
			terms[i].LabelSelector = m.moverSelector(members)
			terms[i].MatchLabelKeys, terms[i].MismatchLabelKeys = nil, nil
		}
	}
}

func (m Mover) selectMoversWeighted(terms []corev1.WeightedPodAffinityTerm, members metav1.LabelSelectorOperator) {
	for i := range terms {
		one := []corev1.PodAffinityTerm{terms[i].PodAffinityTerm}
		m.selectMovers(one, members)
		terms[i].PodAffinityTerm = one[0]
	}
}

// moverSpread returns the constraints that count members, changed to count movers. Other constraints do not apply to movers.
func (m Mover) moverSpread(constraints []corev1.TopologySpreadConstraint) []corev1.TopologySpreadConstraint {
	var own []corev1.TopologySpreadConstraint
	for _, c := range constraints {
		if m.selectsMembers(c.LabelSelector) {
			changed := c.DeepCopy()
			changed.LabelSelector, changed.MatchLabelKeys = m.moverSelector(metav1.LabelSelectorOpExists), nil
			own = append(own, *changed)
		}
	}
	return own
}

// selectsMembers reports whether the selector matches the set's own pods.
func (m Mover) selectsMembers(selector *metav1.LabelSelector) bool {
	s, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && s.Matches(labels.Set(m.Set.Spec.Template.Labels))
}

// moverSelector returns a selector of the movers of this operation that select a node for their member. The operator Exists selects all of
// them, and NotIn selects the movers of other members.
func (m Mover) moverSelector(members metav1.LabelSelectorOperator) *metav1.LabelSelector {
	requirement := metav1.LabelSelectorRequirement{Key: api.MemberLabel, Operator: members}
	if members != metav1.LabelSelectorOpExists {
		requirement.Values = []string{m.memberName()}
	}
	return &metav1.LabelSelector{MatchLabels: map[string]string{api.OperationLabel: m.Link.Operation},
		MatchExpressions: []metav1.LabelSelectorRequirement{requirement}}
}

// raiseRequests raises the mover's requests to the member's requests, so that the member fits on the node of its new volume. The memory
// limit is at least the request.
func raiseRequests(own *corev1.ResourceRequirements, workload *corev1.PodSpec) {
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if needed, present := scheduledRequest(workload, name), own.Requests[name]; needed.Cmp(present) > 0 {
			own.Requests[name] = needed
		}
	}
	own.Limits[corev1.ResourceMemory] = maxQuantity(own.Limits[corev1.ResourceMemory], own.Requests[corev1.ResourceMemory])
}

func maxQuantity(a, b resource.Quantity) resource.Quantity {
	if a.Cmp(b) < 0 {
		return b
	}
	return a
}

// scheduledRequest returns the amount that the scheduler counts for a pod. It is the sum of containers and sidecars, or the largest init
// container if that is more.
func scheduledRequest(pod *corev1.PodSpec, name corev1.ResourceName) resource.Quantity {
	sum, largest := resource.Quantity{}, resource.Quantity{}
	for _, c := range pod.Containers {
		sum.Add(c.Resources.Requests[name])
	}
	for _, c := range pod.InitContainers {
		if ptr.Deref(c.RestartPolicy, "") == corev1.ContainerRestartPolicyAlways {
			sum.Add(c.Resources.Requests[name])
			continue
		}
		largest = maxQuantity(largest, c.Resources.Requests[name])
	}
	return maxQuantity(sum, largest)
}

// mergeResources overrides the mover's amounts with the user's. A default that contradicts them changes, too, so that no request exceeds
// its limit.
func mergeResources(own, users corev1.ResourceRequirements) corev1.ResourceRequirements {
	merged, given := own.DeepCopy(), users.DeepCopy()
	for name, limit := range given.Limits {
		merged.Limits[name] = limit
		if request, has := merged.Requests[name]; has && request.Cmp(limit) > 0 {
			merged.Requests[name] = limit
		}
	}
	for name, request := range given.Requests {
		merged.Requests[name] = request
		_, limited := given.Limits[name]
		if limit, has := merged.Limits[name]; has && !limited && limit.Cmp(request) < 0 {
			merged.Limits[name] = request
		}
	}
	merged.Claims = given.Claims
	return *merged
}

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
