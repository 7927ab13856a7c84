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

// pins are the member's mover pods, if all of them have made their copies and only keep the volumes attached to the node, so that the
// member finds them there; else none. Their protection of the claims is not waited for: nothing in them writes, and once a claim without
// protection is being deleted, the kubelet starts no container on it (kubernetes pkg/kubelet/volumemanager/populator, getPVCExtractPV). A
// claim that one pod may use, no second one could use beside them.
func (s swap) pins() []*corev1.Pod {
	pods, jobs := s.MoversOfMember(s.record.Operation, s.member.Ordinal)
	for _, pod := range pods {
		if pod.DeletionTimestamp != nil || statefulset.Done(pod) || !resize.Pins(pod) {
			return nil
		}
	}
	for _, job := range jobs { // a Job without a pod creates one soon
		made := slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return metav1.IsControlledBy(pod, job) })
		if job.DeletionTimestamp != nil || !made {
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

// pinned reports whether movers of the member only keep its volumes attached.
func (s swap) pinned() bool { return len(s.pins()) > 0 }

// onlyPinned reports whether nothing but pins holds a temporary claim that is being deleted. That is looked at after the deletion: the
// scheduler places no pod on such a claim, so none has come since.
func (s swap) onlyPinned(target *corev1.PersistentVolumeClaim) bool {
	pins := s.pins()
	others := slices.ContainsFunc(s.Pods, func(pod *corev1.Pod) bool { return statefulset.Mounts(pod, target.Name) && !slices.Contains(pins, pod) })
	return len(pins) > 0 && !others && slices.Contains(target.Finalizers, claimProtection) && len(target.Finalizers) == 1
}

// keptByPin reports whether another process has deleted the claim, and nothing but pins has kept it from going. It is replaced then, under
// a lock of the member's name, so that the StatefulSet controller makes no empty one.
func (s swap) keptByPin() bool {
	own := s.MemberPod(s.member.Ordinal)
	return s.claim != nil && s.claim.DeletionTimestamp != nil && s.pinned() && (own == nil || own.Spec.NodeName == "")
}

// endMovers deletes the member's Jobs.
func endMovers(in Input, record *api.Resize, member *api.Member) []plan.Action {
	_, jobs := in.MoversOfMember(record.Operation, member.Ordinal)
	return deleteJobs(jobs)
}

// unpin ends the movers of a member that starts, where they are in its way: its pod was placed on another node, which the volumes have to
// be attached to, or finds no room. It reports whether that is not known yet.
func (w *work) unpin(member *api.Member, pod *corev1.Pod) (undecided bool) {
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

// letsClaimGo ends the movers of a member that starts if another process has deleted one of its claims: they name it, so its protection
// would keep it from being replaced. It reports whether they are still there.
func (w *work) letsClaimGo(member *api.Member) bool {
	pods, jobs := w.MoversOfMember(w.record.Operation, member.Ordinal)
	leaves := slices.ContainsFunc(member.Claims, func(m api.Move) bool {
		claim := w.Claim(m.Claim)
		return claim != nil && claim.DeletionTimestamp != nil
	})
	if !leaves || len(pods)+len(jobs) == 0 {
		return false
	}
	w.do(api.ClaimsSwitched, deleteJobs(jobs)...)
	w.waitFor(true, "a claim of pod %s-%d is being deleted, and its mover ends first", w.Name, member.Ordinal)
	return true
}

// unschedulable reports whether the scheduler has found no node for the pod.
func unschedulable(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
	})
}
