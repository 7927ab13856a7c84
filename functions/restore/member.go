package restore

import (
	"fmt"
	"slices"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
)

// handleSwapping binds the claims of a held member to its new volumes, and releases the member once all are bound. Members that stop
// together also start together.
func (w *work) handleSwapping(member *api.Member) {
	settled := true
	staysOnOld := false
	w.noteForeignPod(member)
	for i := range member.Claims {
		s := newSwap(w.Input, w.record, member, &member.Claims[i])
		step := s.next()
		w.do(api.SwitchRunning, step.actions...)
		switch {
		case step.settledOn == nil && step.waiting != "":
			settled = false
			w.waitFor(true, "%s", step.waiting)
		case step.settledOn == nil:
			settled = false
		case step.settledOn == s.old && !s.move.InPlace:
			staysOnOld = true
		default:
			member.Claims[i].Moved = true
		}
	}
	switch {
	case !settled && w.pastDeadline(member) && w.swapNeverBegan(member):
		w.override = revert(w.Input, w.before, api.DeadlineExceeded,
			fmt.Sprintf("the claims of pod %s-%d could not be swapped within %s, so the pod "+
				"starts again on its unchanged claims and old volumes: %s. Fix the cause, "+
				"then %s", w.Name, member.Ordinal, w.Settings.SwitchTimeout, w.obstacle(), operation.HowToRetry(w.before)))
	case !settled && w.pastDeadline(member):
		w.reportStuckMember(member)
	case !settled:
	case staysOnOld:
		w.stopAgain(member)
	case w.waitsForOthers(member):
		if !w.anotherWaitsToStop() {
			w.waitFor(true, "pod %s-%d waits until every member has its new volumes", w.Name, member.Ordinal)
		}
	default:
		w.releaseToStart(member)
	}
}

// noteForeignPod clears the proof of the member's stop if another pod uses one of its terminating claims, because the copies are then
// stale. Such a pod was placed on the claim before the deletion and may write to the old volume. It must be recorded now: the pod may be
// gone when restore looks again.
func (w *work) noteForeignPod(member *api.Member) {
	if !w.record.Copies() || w.heldPod(member) == nil {
		return
	}
	for i := range member.Claims {
		move := &member.Claims[i]
		claim := w.Claim(move.Claim)
		terminating := claim != nil && claim.DeletionTimestamp != nil && claim.Spec.VolumeName == move.OldVolume &&
			w.Volume(move.OldVolume) != nil
		if terminating && member.StoppedAt != nil && w.foreignPod(w.record, member.Pod, move) != nil {
			member.StoppedAt, w.reason = nil, api.StartedByOthers
		}
	}
}

// swapNeverBegan reports whether a lasting obstacle has kept every claim of the member from being deleted. Then the member need not stay
// stopped. A short wait does not count: the functions may have been down while the deadline passed.
func (w *work) swapNeverBegan(member *api.Member) bool {
	return (w.WriteRefused != "" || w.waiting != "" && w.Waited >= lastWait) && !slices.ContainsFunc(member.Claims, w.leavesVolume)
}

// obstacle returns what keeps the claims from being swapped, or empty if that is unknown.
func (w *work) obstacle() string {
	if w.WriteRefused != "" {
		return "the API server refuses a step: " + w.WriteRefused
	}
	return w.waiting
}

// reportStuckMember tells the user why a member stays held. One of its claims is between two volumes, and without that claim the pod
// would start on an empty volume. It reports only the first such member. The record has one message, and an operation that rewrote it on
// every event would never reach a wait.
func (w *work) reportStuckMember(member *api.Member) {
	if w.obstacle() == "" || w.stuckReported {
		return // the next step follows immediately
	}
	w.stuckReported = true
	message := fmt.Sprintf("pod %s-%d has been held since %s: %s. Fix the cause, then Drydock continues; do not release the pod by hand, "+
		"because without its claims it would start on an empty volume", w.Name, member.Ordinal,
		member.HeldAt.UTC().Format(time.RFC3339), w.obstacle())
	if w.record.Message != message {
		w.report(true, api.DeadlineExceeded, "%s", message)
	}
}

// stopAgain releases a member if one of its claims stays on its old volume: the hold was lost, so the pod may have written to that
// volume. The member is then copied and stopped again.
func (w *work) stopAgain(member *api.Member) {
	if member.Stops >= maxStops {
		w.override = w.giveUpAfterStops(fmt.Sprintf("pod %s-%d was started, or another pod used its claims, before they were swapped",
			w.Name,
			member.Ordinal))
		return
	}
	w.report(true, api.StartedByOthers, "pod %s-%d is stopped again after stop %d of at most %d: another process started it, or another "+
		"pod used its claims, before they were swapped", w.Name, member.Ordinal, member.Stops, maxStops)
	if pod := w.MemberPod(member.Ordinal); pod != nil && (statefulset.Held(pod) && pod.UID == member.Pod ||
		resources.IsHeldLockOf(pod, w.record.Operation)) {
		w.do(api.StartedByOthers, release(pod)...)
	}
	for i := range member.Claims { // a claim that returned to its old volume is a new object with the same name
		move := &member.Claims[i]
		if claim := w.Claim(move.Claim); claim != nil && claim.Spec.VolumeName == move.OldVolume {
			move.UID = claim.UID
		}
	}
	w.copyAgain(member)
	w.announce = events.MemberChanged
}

// waitsForOthers reports whether another member must get its new volumes before any member may start.
func (w *work) waitsForOthers(member *api.Member) bool {
	return w.record.Strategy == api.StrategyWhole && slices.ContainsFunc(w.record.Members, func(m api.Member) bool {
		switch m.Phase {
		case api.MemberPending, api.MemberCopying, api.MemberWaiting:
			// another process started it: old data must not be served beside newer data
			return w.record.IsRollback() && w.record.Phase == api.Moving
		case api.MemberStopping, api.MemberFinalPass:
			return true
		case api.MemberSwapping:
			return m.Ordinal != member.Ordinal && !w.claimsBound(&m)
		}
		return false
	})
}

// anotherWaitsToStop reports whether a rollback must stop a member again, while other members are held on volumes that they already have
// back.
func (w *work) anotherWaitsToStop() bool {
	return w.record.IsRollback() && slices.ContainsFunc(w.record.Members, func(m api.Member) bool { return m.Phase == api.MemberWaiting })
}

// claimsBound reports whether each of the member's claims is bound to its new volume and is not being deleted.
func (in Input) claimsBound(member *api.Member) bool {
	for _, move := range member.Claims {
		claim, volume := in.Claim(move.Claim), in.Volume(move.Volume())
		if claim == nil || volume == nil || claim.DeletionTimestamp != nil || !statefulset.Bound(claim, volume) {
			return false
		}
	}
	return true
}

// releaseToStart releases a member whose claims are all bound to their new volumes. The record is written first, and its change also
// makes the StatefulSet controller look at the set: the controller does not watch claims and may be in back-off.
func (w *work) releaseToStart(member *api.Member) {
	pod := w.heldPod(member)
	member.ReleasedAt = operation.Moment(w.Now)
	w.enterPhase(member, api.MemberStarting)
	w.reason = api.ClaimsSwitched
	if pod != nil {
		w.do(api.ClaimsSwitched, release(pod)...)
	}
}

// handleStarting waits until the member is ready again.
func (w *work) handleStarting(member *api.Member) {
	pod := w.MemberPod(member.Ordinal)
	if pod != nil && pod.UID == member.Pod && (statefulset.Held(pod) || member.Locked) {
		if !w.claimsBound(member) { // another process has deleted a claim since the swap
			w.enterPhase(member, api.MemberSwapping)
			w.reason = api.SwitchRunning
			return
		}
		w.do(api.ClaimsSwitched, release(pod)...)
		return
	}
	if step := w.missingClaimStep(member); step != nil {
		w.do(api.SwitchRunning, step.actions...)
		w.waitFor(true, "%s", step.waiting)
		return
	}
	if w.endMoversOfDeletedClaim(member) {
		return
	}
	switch {
	case !w.Wants(member.Ordinal):
		w.finishMember(member)
	case pod != nil && pod.UID != member.Pod && statefulset.PodReady(pod) && w.strayClaim(member) != "":
		w.override = w.giveUpStrayed(member)
	case pod != nil && pod.UID != member.Pod && statefulset.PodReady(pod) && w.growingFileSystem(member) != "" && !w.pastDeadline(member):
		w.waitFor(true, "%s", w.growingFileSystem(member))
	case pod != nil && pod.UID != member.Pod && statefulset.PodReady(pod):
		w.awaitCatchUp(member, pod)
	case w.pastDeadline(member):
		w.override = w.giveUpNotReady(member, "was not ready", "look at the pod")
	default:
		undecided := w.endMoversInTheWay(member, pod)
		w.waitFor(undecided, "pod %s-%d starts on its new volumes", w.Name, member.Ordinal)
	}
}

// missingClaimStep returns the next step for the first claim that another process has deleted since the swap, or nil. Such a claim is
// gone, or only a pin keeps it.
func (w *work) missingClaimStep(member *api.Member) *step {
	for i := range member.Claims {
		s := newSwap(w.Input, w.record, member, &member.Claims[i])
		if s.claim == nil || s.keptOnlyByPins() {
			step := s.next()
			return &step
		}
	}
	return nil
}

// finishMember ends the work on a member. Its mover is no longer needed, because the member's pod now keeps the volumes attached.
func (w *work) finishMember(member *api.Member) {
	w.enterPhase(member, api.MemberMoved)
	member.Locked = false
	w.do(api.ClaimsSwitched, endMovers(w.Input, w.record, member)...)
	if !allMoved(w.record) {
		w.announce = events.MemberChanged
	}
}

// strayClaim returns a claim of the member that is bound to another volume than its new one, or empty. That happens if another process
// deletes the claim after its swap.
func (w *work) strayClaim(member *api.Member) string {
	for _, move := range member.Claims {
		if claim := w.Claim(move.Claim); claim != nil && claim.Spec.VolumeName != "" && claim.Spec.VolumeName != move.Volume() {
			return move.Claim
		}
	}
	return ""
}

// giveUpStrayed gives the operation up because a member runs on a volume that is not its own.
func (w *work) giveUpStrayed(member *api.Member) plan.Plan {
	next := w.record.Clone()
	next.Member(member.Ordinal).Phase = api.MemberMoved
	move := w.record.Move(w.strayClaim(member))
	return revert(w.Input, next, api.ClaimLost, fmt.Sprintf("claim %s was deleted after its swap, and pod %s-%d has started on another "+
		"volume. Its data is on volume %s, which is kept for %s: see kubectl "+
		"get pv %s", move.Claim, w.Name, member.Ordinal, move.NewVolume, w.Settings.Retention, move.NewVolume))
}

// giveUpNotReady gives the operation up because a member is not ready, or has not caught up, on its new volumes. No other member is
// stopped then.
func (w *work) giveUpNotReady(member *api.Member, failure, hint string) plan.Plan {
	next := w.record.Clone()
	next.Member(member.Ordinal).Phase = api.MemberMoved
	return revert(w.Input, next, api.NotReady, fmt.Sprintf("pod %s-%d has its new volumes, but %s within %s; %s. "+
		"The old volumes are kept for %s", w.Name, member.Ordinal, failure, w.Settings.ReadyTimeout, hint, w.Settings.Retention))
}
