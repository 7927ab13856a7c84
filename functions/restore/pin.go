package restore

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/statefulset"
)

// pins returns the member's mover pods if all of them are pins, else none. A pin has made its copies and only keeps the volumes attached
// to the node, so that the member finds them there. Restore does not wait for the pins to release the claims, because nothing in them
// writes. Once a claim without protection is being deleted, the kubelet starts no container on it (kubernetes
// pkg/kubelet/volumemanager/populator, getPVCExtractPV). A claim with access mode ReadWriteOncePod allows no pin, because no second pod
// could use it.
func (s swap) pins() []*corev1.Pod {
	pods, jobs := s.MoversOfMember(s.record.Operation, s.member.Ordinal)
	for _, pod := range pods {
		if pod.DeletionTimestamp != nil || statefulset.Done(pod) || !resize.IsPin(pod) {
			return nil
		}
	}
	for _, job := range jobs { // a Job without a pod will create one
		hasPod := slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return metav1.IsControlledBy(pod, job) })
		if job.DeletionTimestamp != nil || !hasPod {
			return nil
		}
	}
	for _, claim := range []*corev1.PersistentVolumeClaim{s.claim, s.TargetClaim(s.record.Operation, s.move)} {
		if claim != nil && statefulset.OnePodOnly(claim) {
			return nil
		}
	}
	return pods
}

// pinned reports whether the member has pins.
func (s swap) pinned() bool { return len(s.pins()) > 0 }

// heldOnlyByPins reports whether only pins hold a terminating temporary claim. This is checked after the deletion: the scheduler places
// no pod on such a claim, so no new user can have come.
func (s swap) heldOnlyByPins(target *corev1.PersistentVolumeClaim) bool {
	pins := s.pins()
	others := slices.ContainsFunc(s.Pods, func(pod *corev1.Pod) bool {
		return statefulset.Mounts(pod, target.Name) &&
			!slices.Contains(pins, pod)
	})
	return len(pins) > 0 && !others && slices.Contains(target.Finalizers, claimProtection) && len(target.Finalizers) == 1
}

// keptOnlyByPins reports whether another process has deleted the claim and only pins keep it. The claim is then replaced while the
// member's name is locked, so that the StatefulSet controller creates no empty one.
func (s swap) keptOnlyByPins() bool {
	own := s.MemberPod(s.member.Ordinal)
	return s.claim != nil && s.claim.DeletionTimestamp != nil && s.pinned() && (own == nil || own.Spec.NodeName == "")
}

// endMovers deletes the member's Jobs.
func endMovers(in Input, record *api.Resize, member *api.Member) []plan.Action {
	_, jobs := in.MoversOfMember(record.Operation, member.Ordinal)
	return deleteJobs(jobs)
}

// endMoversInTheWay deletes the movers of a starting member if they block its pod. The pod may be on another node, where the volumes must
// be attached, or it may find no room. It reports true while that is not known yet.
func (w *work) endMoversInTheWay(member *api.Member, pod *corev1.Pod) (undecided bool) {
	pods, jobs := w.MoversOfMember(w.record.Operation, member.Ordinal)
	if len(jobs) == 0 || pod == nil || pod.UID == member.Pod {
		return len(jobs) > 0
	}
	elsewhere := slices.ContainsFunc(pods, func(mover *corev1.Pod) bool { return mover.Spec.NodeName != pod.Spec.NodeName })
	switch {
	case pod.Spec.NodeName == "" && !unschedulable(pod):
		return true
	case elsewhere:
		w.do(api.ClaimsSwitched, deleteJobs(jobs)...)
	}
	return false
}

// endMoversOfDeletedClaim deletes the movers of a starting member if another process has deleted one of its claims. The movers name the
// claim, so its protection would keep it from being replaced. It reports true while movers are still there.
func (w *work) endMoversOfDeletedClaim(member *api.Member) bool {
	pods, jobs := w.MoversOfMember(w.record.Operation, member.Ordinal)
	terminating := slices.ContainsFunc(member.Claims, func(m api.Move) bool {
		claim := w.Claim(m.Claim)
		return claim != nil && claim.DeletionTimestamp != nil
	})
	if !terminating || len(pods)+len(jobs) == 0 {
		return false
	}
	w.do(api.ClaimsSwitched, deleteJobs(jobs)...)
	w.waitFor(true, "a claim of pod %s-%d is being deleted; its mover must end first", w.Name, member.Ordinal)
	return true
}

// unschedulable reports whether the scheduler has found no node for the pod.
func unschedulable(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
	})
}
