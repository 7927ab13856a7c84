package resources

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
)

// place has the scheduler choose for the mover as it would for the member: a volume that waits for its first consumer is provisioned
// where the mover goes, and the member has to follow it. Rules between the members become rules between the movers.
func (m Mover) place(pod *corev1.PodSpec) {
	workload := &m.Set.Spec.Template.Spec
	pod.RuntimeClassName = workload.RuntimeClassName // its node selector and tolerations are applied at admission
	pod.TopologySpreadConstraints = m.spread(workload.TopologySpreadConstraints)
	raise(&pod.Containers[0].Resources, workload)
	if workload.Affinity == nil {
		return
	}
	if pod.Affinity == nil {
		pod.Affinity = &corev1.Affinity{}
	}
	if near := workload.Affinity.PodAffinity.DeepCopy(); near != nil {
		m.rewrite(near.RequiredDuringSchedulingIgnoredDuringExecution, metav1.LabelSelectorOpExists)
		m.rewriteWeighted(near.PreferredDuringSchedulingIgnoredDuringExecution, metav1.LabelSelectorOpExists)
		pod.Affinity.PodAffinity = near
	}
	if apart := workload.Affinity.PodAntiAffinity.DeepCopy(); apart != nil {
		m.rewrite(apart.RequiredDuringSchedulingIgnoredDuringExecution, metav1.LabelSelectorOpNotIn)
		m.rewriteWeighted(apart.PreferredDuringSchedulingIgnoredDuringExecution, metav1.LabelSelectorOpNotIn)
		pod.Affinity.PodAntiAffinity = apart
	}
}

// rewrite makes terms about the members terms about the movers of this operation. Terms about other workloads stay.
func (m Mover) rewrite(terms []corev1.PodAffinityTerm, members metav1.LabelSelectorOperator) {
	for i := range terms {
		if m.aboutMembers(terms[i].LabelSelector) {
			terms[i].LabelSelector = m.movers(members)
			terms[i].MatchLabelKeys, terms[i].MismatchLabelKeys = nil, nil
		}
	}
}

func (m Mover) rewriteWeighted(terms []corev1.WeightedPodAffinityTerm, members metav1.LabelSelectorOperator) {
	for i := range terms {
		one := []corev1.PodAffinityTerm{terms[i].PodAffinityTerm}
		m.rewrite(one, members)
		terms[i].PodAffinityTerm = one[0]
	}
}

// spread returns the constraints that count members, to count movers. Others do not concern a mover.
func (m Mover) spread(constraints []corev1.TopologySpreadConstraint) []corev1.TopologySpreadConstraint {
	var own []corev1.TopologySpreadConstraint
	for _, c := range constraints {
		if m.aboutMembers(c.LabelSelector) {
			made := c.DeepCopy()
			made.LabelSelector, made.MatchLabelKeys = m.movers(metav1.LabelSelectorOpExists), nil
			own = append(own, *made)
		}
	}
	return own
}

// aboutMembers reports whether the selector matches the set's own pods.
func (m Mover) aboutMembers(selector *metav1.LabelSelector) bool {
	s, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && s.Matches(labels.Set(m.Set.Spec.Template.Labels))
}

// movers selects the movers of this operation that choose a node for their member: all of them, or those of other members.
func (m Mover) movers(members metav1.LabelSelectorOperator) *metav1.LabelSelector {
	is := metav1.LabelSelectorRequirement{Key: api.MemberLabel, Operator: members}
	if members != metav1.LabelSelectorOpExists {
		is.Values = []string{m.member()}
	}
	return &metav1.LabelSelector{MatchLabels: map[string]string{api.OperationLabel: m.Link.Operation},
		MatchExpressions: []metav1.LabelSelectorRequirement{is}}
}

// raise gives the mover the member's requests, so that the member fits where the volume is. The memory limit is at least the request.
func raise(own *corev1.ResourceRequirements, workload *corev1.PodSpec) {
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if asked, has := requested(workload, name), own.Requests[name]; asked.Cmp(has) > 0 {
			own.Requests[name] = asked
		}
	}
	own.Limits[corev1.ResourceMemory] = larger(own.Limits[corev1.ResourceMemory], own.Requests[corev1.ResourceMemory])
}

func larger(a, b resource.Quantity) resource.Quantity {
	if a.Cmp(b) < 0 {
		return b
	}
	return a
}

// requested returns the amount that the scheduler counts for a pod: the sum of containers and sidecars, or the largest init container.
func requested(pod *corev1.PodSpec, name corev1.ResourceName) resource.Quantity {
	sum, most := resource.Quantity{}, resource.Quantity{}
	for _, c := range pod.Containers {
		sum.Add(c.Resources.Requests[name])
	}
	for _, c := range pod.InitContainers {
		if ptr.Deref(c.RestartPolicy, "") == corev1.ContainerRestartPolicyAlways {
			sum.Add(c.Resources.Requests[name])
			continue
		}
		most = larger(most, c.Resources.Requests[name])
	}
	return larger(sum, most)
}

// mergeResources puts the user's amounts over the mover's own. A default that contradicts it gives way: a request
// is never above its limit.
func mergeResources(own, users corev1.ResourceRequirements) corev1.ResourceRequirements {
	merged, said := own.DeepCopy(), users.DeepCopy()
	for name, limit := range said.Limits {
		merged.Limits[name] = limit
		if request, has := merged.Requests[name]; has && request.Cmp(limit) > 0 {
			merged.Requests[name] = limit
		}
	}
	for name, request := range said.Requests {
		merged.Requests[name] = request
		_, limited := said.Limits[name]
		if limit, has := merged.Limits[name]; has && !limited && limit.Cmp(request) < 0 {
			merged.Limits[name] = request
		}
	}
	merged.Claims = said.Claims
	return *merged
}
