package restore

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
)

// handleFinalPass checks a member while backup makes its final pass.
func (w *work) handleFinalPass(member *api.Member) {
	switch {
	case w.heldPod(member) == nil:
		w.handleLostHold(member, fmt.Sprintf("the hold of pod %s-%d was removed during its final pass", w.Name, member.Ordinal))
	case w.pastDeadline(member):
		w.cancelStops(fmt.Sprintf("the final pass of pod %s-%d took longer than twice %s", w.Name, member.Ordinal, api.MaxStopAnnotation))
	case !w.interruptedByLoss(member):
		w.waitFor(false, "pod %s-%d is in its final pass", w.Name, member.Ordinal)
	}
}

// interruptedByLoss cancels the stop if another member is lost, and reports whether it did. The set needs the held member: an
// OrderedReady set starts no pod above an ordinal that is not ready.
func (w *work) interruptedByLoss(member *api.Member) bool {
	if w.record.Strategy != api.StrategyRolling || member.Locked {
		return false
	}
	loss := w.LostMember(member.Ordinal)
	if loss != "" {
		w.cancelStops(loss)
	}
	return loss != ""
}

// handleLostHold has a member copied again after another process has started its pod, because the copy may be stale.
func (w *work) handleLostHold(member *api.Member, why string) {
	w.cancelStops(why)
	w.copyAgain(member)
}

// cancelStops releases every held member whose claims are not being swapped yet, so that all of them start again on their previous
// volumes.
func (w *work) cancelStops(why string) {
	if w.noStopLeft() {
		w.override = w.giveUpAfterStops(why)
		return
	}
	var released []string
	for i := range w.record.Members {
		member := &w.record.Members[i]
		if !canCancelStop(member) {
			continue
		}
		released = append(released, fmt.Sprintf("pod %s-%d starts again on its %s volumes after stop %d of at most %d", w.Name,
			member.Ordinal,
			formerVolumes(w.record), member.Stops, maxStops))
		if pod := w.MemberPod(member.Ordinal); pod != nil && (pod.UID == member.Pod || member.Locked) {
			w.dropPlannedWrites(pod)
			if !w.mustStayHeld(pod) { // else staleHoldReleases releases it later
				w.do(api.StartedByOthers, release(pod)...)
			}
		}
		w.copyAgain(member)
	}
	if more := len(released) - 1; more > 0 {
		released[0] += fmt.Sprintf(", and %d more members", more)
	}
	w.report(true, api.StartedByOthers, "%s: %s", released[0], why)
	w.announce = events.MemberChanged
}

// dropPlannedWrites removes the writes to the pod that this plan already contains. A member that comes first in the record may be held or
// evicted by the plan before the loss of another member is found.
func (w *work) dropPlannedWrites(pod *corev1.Pod) {
	w.actions = slices.DeleteFunc(w.actions, func(a plan.Action) bool { return a.Resource == plan.Pods && a.Name == pod.Name })
}

// giveUpAfterStops gives the operation up, because one more stop would not help.
func (w *work) giveUpAfterStops(why string) plan.Plan {
	return revert(w.Input, w.before, api.StartedByOthers,
		fmt.Sprintf("a member was stopped %d times and could not be moved: %s. Fix the cause, then %s",
			maxStops, why, operation.HowToRetry(w.before)))
}

// noStopLeft reports whether a held member has used all its stops.
func (w *work) noStopLeft() bool {
	return slices.ContainsFunc(w.record.Members, func(m api.Member) bool {
		return m.Stops >= maxStops && canCancelStop(&m)
	})
}

// copyAgain resets a member so that it is copied again, because its verified copy may be stale.
func (w *work) copyAgain(member *api.Member) {
	if member.Phase == api.MemberCopying || !w.record.Copies() && member.Phase == api.MemberWaiting {
		return
	}
	// The final pass may have finished, so no mover may write to that volume again.
	finished := member.StoppedAt != nil || member.Phase == api.MemberSwapping
	w.enterPhase(member, api.MemberCopying)
	if !w.record.Copies() {
		w.enterPhase(member, api.MemberWaiting)
	}
	member.Attempt++
	member.Pod, member.Locked, member.HeldAt, member.StoppedAt = "", false, nil, nil
	for i := range member.Claims {
		move := &member.Claims[i]
		if move.Moved {
			continue
		}
		if move.Digest = ""; finished && w.record.Copies() {
			move.DiscardCopy()
		}
	}
	w.reason = api.StartedByOthers
}

// canCancelStop reports whether the member is held and can still start on its volumes as they are.
func canCancelStop(member *api.Member) bool {
	return member.Phase == api.MemberStopping || member.Phase == api.MemberFinalPass || member.Phase == api.MemberGrowing
}

// blocksStart reports whether the pod keeps its member from being started: it is held, or it is a lock with or without its finalizer.
func blocksStart(pod *corev1.Pod) bool {
	return statefulset.Held(pod) || pod != nil && pod.DeletionTimestamp == nil && resources.IsLockPod(pod)
}

// mustStayHeld reports whether a pod must keep its hold a little longer although it may be released. A pod that was deleted by force
// loses its object as soon as the finalizer is gone. The StatefulSet controller would then start a process on the same volumes while the
// node still ends the old one. Restore does not wait for a node that does not report: with a forced deletion, the user takes
// responsibility for it.
func (in Input) mustStayHeld(pod *corev1.Pod) bool {
	forced := pod.DeletionTimestamp != nil && pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds == 0
	if !forced || !statefulset.Held(pod) || in.Now.Sub(pod.DeletionTimestamp.Time) > in.Settings.QuiesceTimeout {
		return false
	}
	node := in.Nodes[pod.Spec.NodeName]
	return node != nil && statefulset.NodeReady(node) && statefulset.WhyNotStopped(pod, node) != ""
}

// release takes the hold off a pod. A lock is deleted while it still has the finalizer, because the fence lets restore delete only such
// pods.
func release(pod *corev1.Pod) []plan.Action {
	switch {
	case pod.DeletionTimestamp == nil && resources.IsLockPod(pod) && statefulset.Held(pod):
		return []plan.Action{plan.Delete(plan.Pods, pod)}
	case pod.DeletionTimestamp == nil && resources.IsLockPod(pod):
		return []plan.Action{plan.Evict(pod)}
	}
	patch := plan.PatchOf(plan.Pods, pod).RemoveFinalizer(api.HoldFinalizer)
	if pod.DeletionTimestamp == nil { // the pod was not told to stop, so it keeps running
		patch.Unlink()
	}
	return patch.Actions()
}
