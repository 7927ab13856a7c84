package world

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/statefulset"
)

// MemberPod returns the pod with the name of the set's member; nil if there is none.
func (o *Observed) MemberPod(ordinal int) *corev1.Pod {
	name := fmt.Sprintf("%s-%d", o.Name, ordinal)
	for _, pod := range o.Pods {
		if pod.Name == name {
			return pod
		}
	}
	return nil
}

// Wants reports whether the set asks for the member.
func (o *Observed) Wants(ordinal int) bool {
	if o.Set == nil || o.Set.DeletionTimestamp != nil {
		return false
	}
	span := statefulset.Span(o.Set)
	return ordinal >= span.Start && ordinal < span.End
}

// Unsteady says why none of the set's members but the given one must be missed now: another one is not ready, or about to be replaced;
// empty if all others stay. The set's status is late, so the pods are asked.
func (o *Observed) Unsteady(ordinal int) string {
	if rollout := statefulset.RollingOut(o.Set); rollout != "" && o.ready(ordinal) {
		return rollout
	}
	span := statefulset.Span(o.Set)
	for other := span.Start; other < span.End; other++ {
		if other == ordinal {
			continue
		}
		if why := o.unready(other); why != "" {
			return why
		}
	}
	return ""
}

func (o *Observed) ready(ordinal int) bool { return o.unready(ordinal) == "" }

// unready says why the member does not serve; empty if it does, for as long as minReadySeconds asks.
func (o *Observed) unready(ordinal int) string {
	pod := o.MemberPod(ordinal)
	switch {
	case pod == nil || !statefulset.IsPodOf(pod, o.Set):
		return fmt.Sprintf("pod %s-%d does not exist", o.Name, ordinal)
	case pod.DeletionTimestamp != nil:
		return fmt.Sprintf("pod %s is ending", pod.Name)
	}
	since, ready := statefulset.ReadySince(pod)
	if !ready {
		return fmt.Sprintf("pod %s is not ready", pod.Name)
	}
	if left := time.Duration(o.Set.Spec.MinReadySeconds)*time.Second - o.Now.Sub(since); left > 0 {
		return fmt.Sprintf("pod %s is ready for less than minReadySeconds", pod.Name)
	}
	return ""
}

// OtherRevision says that the member's replacement would be of another revision of the pod template, so that a stop for its volumes would
// be a rollout, too; empty if it would not. Below the partition of a rolling update, and of sets whose status names none, the
// controller makes pods of the current revision (kubernetes pkg/controller/statefulset, newVersionedStatefulSetPod).
func (o *Observed) OtherRevision(pod *corev1.Pod, ordinal int) string {
	is := pod.Labels[appsv1.ControllerRevisionHashLabelKey]
	next := o.Set.Status.UpdateRevision
	rolling := o.Set.Spec.UpdateStrategy.RollingUpdate
	if rolling != nil && rolling.Partition != nil && ordinal < statefulset.Start(o.Set)+int(*rolling.Partition) {
		next = o.Set.Status.CurrentRevision
	}
	if is == "" || next == "" || is == next {
		return ""
	}
	return fmt.Sprintf("pod %s is of revision %s, its replacement would be of %s", pod.Name, is, next)
}

// Lost says which of the set's other members is away, so that it needs the given one; empty if none is.
func (o *Observed) Lost(ordinal int) string {
	span := statefulset.Span(o.Set)
	for other := span.Start; other < span.End; other++ {
		pod := o.MemberPod(other)
		switch {
		case other == ordinal:
		case pod == nil:
			return fmt.Sprintf("pod %s-%d does not exist", o.Name, other)
		case !statefulset.PodReady(pod) || pod.DeletionTimestamp != nil:
			return fmt.Sprintf("pod %s is not ready", pod.Name)
		}
	}
	return ""
}

// TwoRevisions reports whether the set's pods below its partition are of an older revision, see the function of the same name.
func (o *Observed) TwoRevisions() bool { return statefulset.TwoRevisions(o.Set) }

// LeavingClaims returns the names of the member's claims that are being deleted: they go as soon as its pod stops, and the StatefulSet
// controller makes empty ones for the replacement.
func (o *Observed) LeavingClaims(ordinal int) []string {
	var names []string
	for _, template := range o.Set.Spec.VolumeClaimTemplates {
		name := statefulset.ClaimName(o.Set, template.Name, ordinal)
		if claim := o.Claim(name); claim != nil && claim.DeletionTimestamp != nil {
			names = append(names, name)
		}
	}
	return names
}

// MissingClaim returns the name of a claim without which the StatefulSet controller would start the member on an empty volume: it does not
// exist, is being deleted, or has no volume. Empty if there is none, or if the set does not ask for the member.
func (o *Observed) MissingClaim(ordinal int) string {
	if !o.Wants(ordinal) {
		return ""
	}
	for _, template := range o.Set.Spec.VolumeClaimTemplates {
		name := statefulset.ClaimName(o.Set, template.Name, ordinal)
		if claim := o.Claim(name); claim == nil || claim.DeletionTimestamp != nil || claim.Spec.VolumeName == "" {
			return name
		}
	}
	return ""
}
