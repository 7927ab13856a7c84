package world

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/statefulset"
)

// MemberPod returns the pod with the name of the member, or nil.
func (o *Observed) MemberPod(ordinal int) *corev1.Pod {
	name := fmt.Sprintf("%s-%d", o.Name, ordinal)
	for _, pod := range o.Pods {
		if pod.Name == name {
			return pod
		}
	}
	return nil
}

// Wants reports whether the set's replicas include the ordinal.
func (o *Observed) Wants(ordinal int) bool {
	if o.Set == nil || o.Set.DeletionTimestamp != nil {
		return false
	}
	span := statefulset.Span(o.Set)
	return ordinal >= span.Start && ordinal < span.End
}

// WantsAny reports whether the set's replicas include any of the operation's members.
func (o *Observed) WantsAny(record *api.Resize) bool {
	return slices.ContainsFunc(record.Members, func(m api.Member) bool { return o.Wants(m.Ordinal) })
}

// WhyUnsteady returns why the member must not be stopped now: another member is not ready, or a rollout will soon replace it. It returns
// "" if all other members will keep serving. It reads the pods, because the set's status lags behind.
func (o *Observed) WhyUnsteady(ordinal int) string {
	if rollout := statefulset.WhyRollingOut(o.Set); rollout != "" && o.ready(ordinal) {
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

// unready returns why the member does not serve. It returns "" if it has been ready for minReadySeconds.
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
	if left := time.Duration(o.Set.Spec.MinReadySeconds)*time.Second - o.Now.Sub(since); left > 0 && o.Set.Spec.MinReadySeconds > 0 {
		return fmt.Sprintf("pod %s has been ready for less than minReadySeconds", pod.Name)
	}
	return ""
}

// OtherRevision returns why a stop of the pod would also be a rollout: its replacement would have another revision of the pod template. It
// returns "" otherwise. The controller creates pods of the current revision below the partition of a rolling update, and in sets whose
// status names no update revision (kubernetes pkg/controller/statefulset, newVersionedStatefulSetPod).
func (o *Observed) OtherRevision(pod *corev1.Pod, ordinal int) string {
	present := pod.Labels[appsv1.ControllerRevisionHashLabelKey]
	next := o.Set.Status.UpdateRevision
	rolling := o.Set.Spec.UpdateStrategy.RollingUpdate
	if rolling != nil && rolling.Partition != nil && ordinal < statefulset.Start(o.Set)+int(*rolling.Partition) {
		next = o.Set.Status.CurrentRevision
	}
	if present == "" || next == "" || present == next {
		return ""
	}
	return fmt.Sprintf("pod %s has revision %s, its replacement would have %s", pod.Name, present, next)
}

// LostMember returns which other member of the set is away, so that the set needs the given one. It returns "" if none is.
func (o *Observed) LostMember(ordinal int) string {
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

// TwoRevisions reports whether the set's pods below its partition have an older revision, see statefulset.TwoRevisions.
func (o *Observed) TwoRevisions() bool { return statefulset.TwoRevisions(o.Set) }

// LeavingClaims returns the names of the member's claims that are being deleted. They disappear when its pod stops, and the StatefulSet
// controller creates empty ones for the replacement.
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

// MissingClaim returns the name of a claim of the member that does not exist, is being deleted, or has no volume. The StatefulSet
// controller would start the member on an empty volume. It returns "" if there is none, or if the set's replicas do not include the member.
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
