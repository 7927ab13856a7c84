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
	if began, _ := w.rollbackBegan(w.Record, member); w.Record.IsRollback() && !began && w.Rejected != "" {
		w.override = revert(w.Input, w.Before, api.Rejected, fmt.Sprintf("the API server refuses a step, so pod %s-%d starts again on its "+
			"unchanged claims: %s. Fix the cause, then %s", w.Name, member.Ordinal, w.Rejected, operation.HowToRetry(w.Namespace, w.Before)))
		return
	}
	settled := true
	staysOnOld := false
	w.noteForeignPod(member)
	for i := range member.Claims {
		s := newSwap(w.Input, w.Record, member, &member.Claims[i])
		step := s.next()
		w.Do(api.SwapRunning, step.actions...)
		if s.rollback && !s.rollbackPartial && deletesClaim(step.actions) {
			w.trySuccessors(member)
		}
		switch {
		case step.settledOn == nil && step.waiting != "":
			settled = false
			w.WaitFor(true, "%s", step.waiting)
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
		w.override = revert(w.Input, w.Before, api.DeadlineExceeded,
			fmt.Sprintf("the claims of pod %s-%d could not be swapped within %s, so the pod "+
				"starts again on its unchanged claims and old volumes: %s. Fix the cause, "+
				"then %s", w.Name, member.Ordinal, w.Settings.SwapTimeout, w.obstacle(), operation.HowToRetry(w.Namespace, w.Before)))
	case !settled && w.pastDeadline(member):
		w.reportStuckMember(member)
	case !settled:
	case staysOnOld:
		w.stopAgain(member)
	case w.waitsForOthers(member):
		if !w.WantsAny(w.Record) { // no pod will need the volumes attached, and the pin would count for quotas
			w.Do(api.SwapRunning, endMovers(w.Input, w.Record, member)...)
		}
		if !w.anotherWaitsToStop() {
			w.WaitFor(true, "pod %s-%d waits until every member has its new volumes", w.Name, member.Ordinal)
		}
	default:
		w.releaseToStart(member)
	}
}

func deletesClaim(actions []plan.Action) bool {
	return slices.ContainsFunc(actions, func(a plan.Action) bool { return a.Verb == plan.VerbDelete && a.Resource == plan.Claims })
}

// trySuccessors asks the API server whether it accepts all claims that must come back together, before the first claim of a rollback is
// deleted. In a resize, the temporary claims have shown that. In a rollback there is no way back, because no pod starts on half of one.
func (w *work) trySuccessors(member *api.Member) {
	for i := range w.Record.Members {
		m := &w.Record.Members[i]
		if m.Ordinal != member.Ordinal && w.Record.Strategy != api.StrategyWhole {
			continue
		}
		for j := range m.Claims {
			s := newSwap(w.Input, w.Record, m, &m.Claims[j])
			tried := func(a plan.Action) bool { return a.Verb == plan.VerbTry && a.Name == s.move.Claim }
			if s.claim == nil || s.new == nil || s.claim.Spec.VolumeName != s.move.OldVolume || slices.ContainsFunc(w.dryRuns, tried) {
				continue
			}
			if manifest := s.ClaimManifest(s.claim); manifest != nil {
				successor := resources.MakeSuccessor(manifest, s.new, s.move.Target(), s.successor())
				w.dryRuns = append(w.dryRuns, plan.Try(plan.Claims, claimToCreate(successor)))
			}
		}
	}
}

// noteForeignPod clears the proof of the member's stop if another pod uses one of its claims on its old volume, because the copies are then
// stale. Such a pod may write to the old volume. It must be recorded now: the pod may be gone when restore looks again.
func (w *work) noteForeignPod(member *api.Member) {
	if !w.Record.Copies() || w.heldPod(member) == nil {
		return
	}
	for i := range member.Claims {
		move := &member.Claims[i]
		claim := w.Claim(move.Claim)
		onOld := claim != nil && claim.Spec.VolumeName == move.OldVolume && w.Volume(move.OldVolume) != nil
		if onOld && member.StoppedAt != nil && w.foreignPod(w.Record, member.Pod, move) != nil {
			member.StoppedAt, w.Reason = nil, api.StartedByOthers
		}
	}
}

// swapNeverBegan reports whether a lasting obstacle has kept every claim of the member from being deleted. Then the member need not stay
// stopped. A short wait does not count: the functions may have been down while the deadline passed.
func (w *work) swapNeverBegan(member *api.Member) bool {
	return (w.Rejected != "" || w.Waiting() != "" && w.Waited >= lastWait) && !slices.ContainsFunc(member.Claims, w.leavesVolume)
}

// obstacle returns what keeps the claims from being swapped, or empty if that is unknown.
func (w *work) obstacle() string {
	if w.Rejected != "" {
		return "the API server refuses a step: " + w.Rejected
	}
	return w.Waiting()
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
	if w.Record.Message != message {
		w.Report(w.Set, true, api.DeadlineExceeded, "%s", message)
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
	again := "It is stopped again later"
	if w.Record.Copies() {
		again = "It is copied again and stopped later"
	}
	w.Report(w.Set, true, api.StartedByOthers, "pod %s-%d was started by another process, or another pod used its claims, before they were "+
		"swapped. %s; this was try %d of at most %d to stop it", w.Name, member.Ordinal, again, member.Stops, maxStops)
	if pod := w.MemberPod(member.Ordinal); pod != nil && (statefulset.Held(pod) && pod.UID == member.Pod ||
		resources.IsHeldLockOf(pod, w.Record.Operation)) {
		w.Do(api.StartedByOthers, release(pod)...)
	}
	for i := range member.Claims { // a claim that returned to its old volume is a new object with the same name
		move := &member.Claims[i]
		if claim := w.Claim(move.Claim); claim != nil && claim.Spec.VolumeName == move.OldVolume {
			move.UID = claim.UID
		}
	}
	w.copyAgain(member)
	w.Announce = events.MemberChanged
}

// waitsForOthers reports whether another member must get its new volumes before any member may start.
func (w *work) waitsForOthers(member *api.Member) bool {
	return w.Record.Strategy == api.StrategyWhole && slices.ContainsFunc(w.Record.Members, func(m api.Member) bool {
		switch m.Phase {
		case api.MemberPending, api.MemberCopying, api.MemberWaiting:
			// another process started it: old data must not be served beside newer data
			return w.Record.IsRollback() && w.Record.Phase == api.Moving
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
	return w.Record.IsRollback() && slices.ContainsFunc(w.Record.Members, func(m api.Member) bool { return m.Phase == api.MemberWaiting })
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
	w.Reason = api.ClaimsSwapped
	if pod != nil {
		w.Do(api.ClaimsSwapped, release(pod)...)
	}
}
