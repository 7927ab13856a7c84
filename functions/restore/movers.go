package restore

import (
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moving"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
)

// endMovers deletes the member's Jobs.
func endMovers(in Input, record *api.Resize, member *api.Member) []plan.Action {
	_, jobs := in.MoversOfMember(record.Operation, member.Ordinal)
	return moving.DeleteJobs(jobs, "")
}

// endMoversInTheWay deletes the movers of a starting member if they block its pod. The pod may be on another node, where the volumes must
// be attached, it may find no room, or its node may refuse to mount a volume in a second pod. It reports true while that is not known yet.
func (w *work) endMoversInTheWay(member *api.Member, pod *corev1.Pod) (undecided bool) {
	pods, jobs := w.MoversOfMember(w.Record.Operation, member.Ordinal)
	if len(jobs) == 0 || pod == nil || pod.UID == member.Pod {
		return len(jobs) > 0
	}
	elsewhere := slices.ContainsFunc(pods, func(mover *corev1.Pod) bool { return mover.Spec.NodeName != pod.Spec.NodeName })
	switch {
	case pod.Spec.NodeName == "" && !unschedulable(pod):
		return true
	case elsewhere || mountsRefused(pod, w.Now):
		w.Do(api.ClaimsSwapped, moving.DeleteJobs(jobs, "")...)
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
	pods, jobs := w.MoversOfMember(w.Record.Operation, member.Ordinal)
	terminating := slices.ContainsFunc(member.Claims, func(m api.Move) bool {
		claim := w.Claim(m.Claim)
		return claim != nil && claim.DeletionTimestamp != nil
	})
	if !terminating || len(pods)+len(jobs) == 0 {
		return false
	}
	w.Do(api.ClaimsSwapped, moving.DeleteJobs(jobs, "")...)
	w.WaitFor(true, "a claim of pod %s-%d is being deleted; its mover must end first", w.Name, member.Ordinal)
	return true
}

// unschedulable reports whether the scheduler has found no node for the pod.
func unschedulable(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
	})
}

// staleHoldReleases returns the release of each held pod that no member of an active operation needs. Either its operation ended before
// the release, or the pod is a lock that is no longer needed. Such a pod would stay Terminating for ever. A pod with a missing claim
// stays held, because without the claim it would start on an empty volume; the user gets a warning.
func staleHoldReleases(in Input, record *api.Resize) (releases, warnings []plan.Action) {
	for _, pod := range in.Pods {
		link, err := api.LoadLink(pod)
		if !blocksStart(pod) || err != nil || link == nil || link.Role != api.RoleHeld || link.Member == nil {
			continue
		}
		active := record.Active() && record.Operation == link.Operation
		if active && holdsMember(record.Member(*link.Member), pod) || !active && in.Journal(link.Operation) != nil {
			continue
		}
		if active && locksForMissingClaim(in, record.Member(*link.Member), pod) {
			continue
		}
		if missing := in.MissingClaim(*link.Member); missing != "" {
			message := fmt.Sprintf("pod %s is still held by operation %s, which has ended: claim %s is missing, and without it the pod "+
				"would "+
				"start on an empty volume. Find its volume with kubectl get pv -l %s=%s, then create the claim on it",
				pod.Name, link.Operation, missing, api.NamespaceLabel, in.Namespace)
			warnings = append(warnings, warnOnSet(in, api.ClaimLost, message))
			continue
		}
		if !in.mustStayHeld(pod) {
			releases = append(releases, release(pod)...)
		}
	}
	return releases, warnings
}

// leftMovers returns the deletion of each mover's Job whose operation has ended. A slow process may have created it afterwards. Its pod
// would keep its claims from a later resize for ever. While an operation has a journal, the operation deletes its Jobs.
func leftMovers(in Input, record *api.Resize) []plan.Action {
	return moving.DeleteJobs(slices.DeleteFunc(slices.Clone(in.Jobs), func(job *batchv1.Job) bool {
		link, err := api.LoadLink(job)
		return err != nil || link == nil || !statefulset.IsOfMover(job, job.Name, link.Operation) || in.Journal(link.Operation) != nil ||
			record.Active() && record.Operation == link.Operation
	}), "")
}

// leftLinks returns the end of the link of each claim whose operation has ended. A slow process may have written it afterwards. The volume
// of such a claim is an orphan, see retire.
func leftLinks(in Input, record *api.Resize) []plan.Action {
	var actions []plan.Action
	for _, claim := range in.Claims {
		link, err := api.LoadLink(claim)
		if err == nil && link != nil && link.Role == api.RoleSource && link.Set.Name == in.Name && claim.DeletionTimestamp == nil &&
			in.Journal(link.Operation) == nil && !(record.Active() && record.Operation == link.Operation) {
			actions = append(actions, plan.PatchOf(plan.Claims, claim).RemoveFinalizer(api.FreezeFinalizer).Unlink().Actions()...)
		}
	}
	return actions
}

// locksForMissingClaim reports whether the pod locks the name of a starting member while one of its claims is missing, see
// keptOnlyByPins.
func locksForMissingClaim(in Input, member *api.Member, pod *corev1.Pod) bool {
	return member != nil && member.Phase == api.MemberStarting && resources.IsLockPod(pod) && in.MissingClaim(member.Ordinal) != ""
}

// holdsMember reports whether the member is stopped and this pod keeps it stopped. During the swap, a lock may have replaced a pod that
// lost its hold, see lockName.
func holdsMember(member *api.Member, pod *corev1.Pod) bool {
	if member == nil {
		return false
	}
	switch member.Phase {
	case api.MemberStopping, api.MemberFinalPass, api.MemberGrowing, api.MemberSwapping, api.MemberStarting:
		return member.Pod == pod.UID || member.Locked || member.Phase == api.MemberSwapping && resources.IsLockPod(pod)
	}
	return false
}
