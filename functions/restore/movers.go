package restore

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
)

// deleteJobs deletes the Jobs that are not being deleted yet.
func deleteJobs(jobs []*batchv1.Job) []plan.Action {
	var actions []plan.Action
	for _, job := range jobs {
		if job.DeletionTimestamp == nil {
			actions = append(actions, plan.Delete(plan.Jobs, job))
		}
	}
	return actions
}

// endMovers deletes the member's Jobs.
func endMovers(in Input, record *api.Resize, member *api.Member) []plan.Action {
	_, jobs := in.MoversOfMember(record.Operation, member.Ordinal)
	return deleteJobs(jobs)
}

// endMoversInTheWay deletes the movers of a starting member if they block its pod. The pod may be on another node, where the volumes must
// be attached, it may find no room, or its node may refuse to mount a volume in a second pod. It reports true while that is not known yet.
func (w *work) endMoversInTheWay(member *api.Member, pod *corev1.Pod) (undecided bool) {
	pods, jobs := w.MoversOfMember(w.record.Operation, member.Ordinal)
	if len(jobs) == 0 || pod == nil || pod.UID == member.Pod {
		return len(jobs) > 0
	}
	elsewhere := slices.ContainsFunc(pods, func(mover *corev1.Pod) bool { return mover.Spec.NodeName != pod.Spec.NodeName })
	switch {
	case pod.Spec.NodeName == "" && !unschedulable(pod):
		return true
	case elsewhere || mountsRefused(pod, w.Now):
		w.do(api.ClaimsSwapped, deleteJobs(jobs)...)
	}
	return false
}

// mountPatience is how long a node may take to mount the volumes of a pod. The mover has them mounted there, so it takes less.
const mountPatience = 20 * time.Second

// mountsRefused reports whether the pod's node does not mount its volumes. The kubelet creates the pod's sandbox afterwards. Without the
// mover, the volumes stay attached for the pod itself.
func mountsRefused(pod *corev1.Pod, now time.Time) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReadyToStartContainers && c.Status == corev1.ConditionFalse && pod.Spec.NodeName != "" &&
			now.Sub(c.LastTransitionTime.Time) > mountPatience
	})
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
	w.do(api.ClaimsSwapped, deleteJobs(jobs)...)
	w.waitFor(true, "a claim of pod %s-%d is being deleted; its mover must end first", w.Name, member.Ordinal)
	return true
}

// unschedulable reports whether the scheduler has found no node for the pod.
func unschedulable(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
	})
}
