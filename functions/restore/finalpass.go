package restore

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
)

// maxStops is how often one operation stops a member. A member is stopped again if its hold was lost or its stop took too long.
const maxStops = 4

// handleFinalPass checks a member while backup makes its final pass.
func (w *work) handleFinalPass(member *api.Member) {
	switch {
	case w.heldPod(member) == nil:
		w.handleLostHold(member, fmt.Sprintf("the hold of pod %s-%d was removed during its final pass", w.Name, member.Ordinal))
	case w.otherClaimUser(member, member.Pod) != "": // it may be gone before the swap, and then its writes would be lost
		w.handleLostHold(member, w.otherClaimUser(member, member.Pod))
	case w.pastDeadline(member):
		w.cancelStops(fmt.Sprintf("the final pass of pod %s-%d took longer than twice %s", w.Name, member.Ordinal, api.MaxStopAnnotation))
	case !w.interruptedByLoss(member):
		w.WaitFor(false, "pod %s-%d is in its final pass", w.Name, member.Ordinal)
	}
}

// interruptedByLoss cancels the stop if another member is lost, and reports whether it did. The set needs the held member: an
// OrderedReady set starts no pod above an ordinal that is not ready.
func (w *work) interruptedByLoss(member *api.Member) bool {
	if w.Record.Strategy != api.StrategyRolling || member.Locked {
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
	for i := range w.Record.Members {
		member := &w.Record.Members[i]
		if !canCancelStop(member) {
			continue
		}
		released = append(released, fmt.Sprintf("pod %s-%d starts again on its %s volumes after try %d of at most %d to stop it", w.Name,
			member.Ordinal,
			formerVolumes(w.Record), member.Stops, maxStops))
		if pod := w.MemberPod(member.Ordinal); pod != nil && (pod.UID == member.Pod || member.Locked) {
			w.dropPlannedWrites(pod)
			if !w.mustStayHeld(pod) { // else staleHoldReleases releases it later
				w.Do(api.StartedByOthers, release(pod)...)
			}
		}
		w.copyAgain(member)
	}
	switch more := len(released) - 1; {
	case more == 1:
		released[0] += ", and one more member"
	case more > 1:
		released[0] += fmt.Sprintf(", and %d more members", more)
	}
	w.Report(w.Set, true, api.StartedByOthers, "%s: %s", released[0], why)
	w.Announce = events.MemberChanged
}

// dropPlannedWrites removes the writes to the pod that this plan already contains. A member that comes first in the record may be held or
// evicted by the plan before the loss of another member is found.
func (w *work) dropPlannedWrites(pod *corev1.Pod) {
	w.Drop(func(a plan.Action) bool { return a.Resource == plan.Pods && a.Name == pod.Name })
}

// giveUpAfterStops gives the operation up, because one more stop would not help.
func (w *work) giveUpAfterStops(why string) plan.Plan {
	return revert(w.Input, w.Before, api.StartedByOthers,
		fmt.Sprintf("a member was stopped %d times and could not be moved: %s. Fix the cause, then %s",
			maxStops, why, operation.HowToRetry(w.Namespace, w.Before)))
}

// noStopLeft reports whether a held member has used all its stops.
func (w *work) noStopLeft() bool {
	return slices.ContainsFunc(w.Record.Members, func(m api.Member) bool {
		return m.Stops >= maxStops && canCancelStop(&m)
	})
}

// copyAgain resets a member so that it is copied again, because its verified copy may be stale.
func (w *work) copyAgain(member *api.Member) {
	if member.Phase == api.MemberCopying || !w.Record.Copies() && member.Phase == api.MemberWaiting {
		return
	}
	// The final pass may have finished, so no mover may write to that volume again.
	finished := member.StoppedAt != nil || member.Phase == api.MemberSwapping
	w.enterPhase(member, api.MemberCopying)
	if !w.Record.Copies() {
		w.enterPhase(member, api.MemberWaiting)
	}
	member.Attempt++
	member.Pod, member.Locked, member.HeldAt, member.StoppedAt = "", false, nil, nil
	for i := range member.Claims {
		move := &member.Claims[i]
		if move.Moved {
			continue
		}
		if move.Digest = ""; finished && w.Record.Copies() {
			move.DiscardCopy()
		}
	}
	w.Reason = api.StartedByOthers
}

// canCancelStop reports whether the member is held and can still start on its volumes as they are.
func canCancelStop(member *api.Member) bool {
	return member.Phase == api.MemberStopping || member.Phase == api.MemberFinalPass || member.Phase == api.MemberGrowing
}
