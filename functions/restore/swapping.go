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

// swapping gives a stopped member its new volumes, or lets its claims grow.
type swapping struct{ *work }

func (w *work) swapping() swapping { return swapping{w} }

// handleSwapping binds the claims of a held member to its new volumes, and releases the member once all are bound. Members that stop
// together also start together.
func (sw swapping) handleSwapping(member *api.Member) {
	if began, _ := sw.rollbackBegan(sw.Record, member); sw.Record.IsRollback() && !began && sw.Rejected != "" {
		sw.override = revert(sw.Input, sw.Before, api.Rejected, fmt.Sprintf("the API server refuses a step, so pod %s-%d starts again on its "+
			"unchanged claims: %s. Fix the cause, then %s", sw.Name, member.Ordinal, sw.Rejected, operation.HowToRetry(sw.Namespace, sw.Before)))
		return
	}
	settled := true
	staysOnOld := false
	sw.noteForeignPod(member)
	for i := range member.Claims {
		s := newSwap(sw.Input, sw.Record, member, &member.Claims[i])
		step := s.next()
		sw.Do(api.SwapRunning, step.actions...)
		if s.rollback && !s.rollbackPartial && deletesClaim(step.actions) {
			sw.trySuccessors(member)
		}
		switch {
		case step.settledOn == nil && step.waiting != "":
			settled = false
			sw.WaitFor(true, "%s", step.waiting)
		case step.settledOn == nil:
			settled = false
		case step.settledOn == s.old && !s.move.InPlace:
			staysOnOld = true
		default:
			member.Claims[i].Moved = true
		}
	}
	switch {
	case !settled && sw.pastDeadline(member) && sw.swapNeverBegan(member):
		sw.override = revert(sw.Input, sw.Before, api.DeadlineExceeded,
			fmt.Sprintf("the claims of pod %s-%d could not be swapped within %s, so the pod "+
				"starts again on its unchanged claims and old volumes: %s. Fix the cause, "+
				"then %s", sw.Name, member.Ordinal, sw.Settings.SwapTimeout, sw.obstacle(), operation.HowToRetry(sw.Namespace, sw.Before)))
	case !settled && sw.pastDeadline(member):
		sw.reportStuckMember(member)
	case !settled:
	case staysOnOld:
		sw.stopAgain(member)
	case sw.waitsForOthers(member):
		if !sw.WantsAny(sw.Record) { // no pod will need the volumes attached, and the pin would count for quotas
			sw.Do(api.SwapRunning, endMovers(sw.Input, sw.Record, member)...)
		}
		if !sw.anotherWaitsToStop() {
			sw.WaitFor(true, "pod %s-%d waits until every member has its new volumes", sw.Name, member.Ordinal)
		}
	default:
		sw.releaseToStart(member)
	}
}

func deletesClaim(actions []plan.Action) bool {
	return slices.ContainsFunc(actions, func(a plan.Action) bool { return a.Verb == plan.VerbDelete && a.Resource == plan.Claims })
}

// trySuccessors asks the API server whether it accepts all claims that must come back together, before the first claim of a rollback is
// deleted. In a resize, the temporary claims have shown that. In a rollback there is no way back, because no pod starts on half of one.
func (sw swapping) trySuccessors(member *api.Member) {
	for i := range sw.Record.Members {
		m := &sw.Record.Members[i]
		if m.Ordinal != member.Ordinal && sw.Record.Strategy != api.StrategyWhole {
			continue
		}
		for j := range m.Claims {
			s := newSwap(sw.Input, sw.Record, m, &m.Claims[j])
			tried := func(a plan.Action) bool { return a.Verb == plan.VerbTry && a.Name == s.move.Claim }
			if s.claim == nil || s.new == nil || s.claim.Spec.VolumeName != s.move.OldVolume || slices.ContainsFunc(sw.dryRuns, tried) {
				continue
			}
			if manifest := s.ClaimManifest(s.claim); manifest != nil {
				successor := resources.MakeSuccessor(manifest, s.new, s.move.Target(), s.successor())
				sw.dryRuns = append(sw.dryRuns, plan.Try(plan.Claims, claimToCreate(successor)))
			}
		}
	}
}

// noteForeignPod clears the proof of the member's stop if another pod uses one of its claims on its old volume, because the copies are then
// stale. Such a pod may write to the old volume. It must be recorded now: the pod may be gone when restore looks again.
func (sw swapping) noteForeignPod(member *api.Member) {
	if !sw.Record.Copies() || sw.heldPod(member) == nil {
		return
	}
	for i := range member.Claims {
		move := &member.Claims[i]
		claim := sw.Claim(move.Claim)
		onOld := claim != nil && claim.Spec.VolumeName == move.OldVolume && sw.Volume(move.OldVolume) != nil
		if onOld && member.StoppedAt != nil && sw.foreignPod(sw.Record, member.Pod, move) != nil {
			member.StoppedAt, sw.Reason = nil, api.StartedByOthers
		}
	}
}

// swapNeverBegan reports whether a lasting obstacle has kept every claim of the member from being deleted. Then the member need not stay
// stopped. A short wait does not count: the functions may have been down while the deadline passed.
func (sw swapping) swapNeverBegan(member *api.Member) bool {
	return (sw.Rejected != "" || sw.Waiting() != "" && sw.Waited >= lastWait) && !slices.ContainsFunc(member.Claims, sw.leavesVolume)
}

// obstacle returns what keeps the claims from being swapped, or empty if that is unknown.
func (sw swapping) obstacle() string {
	if sw.Rejected != "" {
		return "the API server refuses a step: " + sw.Rejected
	}
	return sw.Waiting()
}

// reportStuckMember tells the user why a member stays held. One of its claims is between two volumes, and without that claim the pod
// would start on an empty volume. It reports only the first such member. The record has one message, and an operation that rewrote it on
// every event would never reach a wait.
func (sw swapping) reportStuckMember(member *api.Member) {
	if sw.obstacle() == "" || sw.stuckReported {
		return // the next step follows immediately
	}
	sw.stuckReported = true
	message := fmt.Sprintf("pod %s-%d has been held since %s: %s. Fix the cause, then Drydock continues; do not release the pod by hand, "+
		"because without its claims it would start on an empty volume", sw.Name, member.Ordinal,
		member.HeldAt.UTC().Format(time.RFC3339), sw.obstacle())
	if sw.Record.Message != message {
		sw.Report(sw.Set, true, api.DeadlineExceeded, "%s", message)
	}
}

// stopAgain releases a member if one of its claims stays on its old volume: the hold was lost, so the pod may have written to that
// volume. The member is then copied and stopped again.
func (sw swapping) stopAgain(member *api.Member) {
	if member.Stops >= maxStops {
		sw.override = sw.stopping().giveUpAfterStops(fmt.Sprintf("pod %s-%d was started, or another pod used its claims, before they were "+
			"swapped", sw.Name,
			member.Ordinal))
		return
	}
	again := "It is stopped again later"
	if sw.Record.Copies() {
		again = "It is copied again and stopped later"
	}
	sw.Report(sw.Set, true, api.StartedByOthers, "pod %s-%d was started by another process, or another pod used its claims, before they were "+
		"swapped. %s; this was try %d of at most %d to stop it", sw.Name, member.Ordinal, again, member.Stops, maxStops)
	if pod := sw.MemberPod(member.Ordinal); pod != nil && (statefulset.Held(pod) && pod.UID == member.Pod ||
		resources.IsHeldLockOf(pod, sw.Record.Operation)) {
		sw.Do(api.StartedByOthers, release(pod)...)
	}
	for i := range member.Claims { // a claim that returned to its old volume is a new object with the same name
		move := &member.Claims[i]
		if claim := sw.Claim(move.Claim); claim != nil && claim.Spec.VolumeName == move.OldVolume {
			move.UID = claim.UID
		}
	}
	sw.stopping().copyAgain(member)
	sw.Announce = events.MemberChanged
}

// waitsForOthers reports whether another member must get its new volumes before any member may start.
func (sw swapping) waitsForOthers(member *api.Member) bool {
	return sw.Record.Strategy == api.StrategyWhole && slices.ContainsFunc(sw.Record.Members, func(m api.Member) bool {
		switch m.Phase {
		case api.MemberPending, api.MemberCopying, api.MemberWaiting:
			// another process started it: old data must not be served beside newer data
			return sw.Record.IsRollback() && sw.Record.Phase == api.Moving
		case api.MemberStopping, api.MemberFinalPass:
			return true
		case api.MemberSwapping:
			return m.Ordinal != member.Ordinal && !sw.claimsBound(&m)
		}
		return false
	})
}

// anotherWaitsToStop reports whether a rollback must stop a member again, while other members are held on volumes that they already have
// back.
func (sw swapping) anotherWaitsToStop() bool {
	return sw.Record.IsRollback() && slices.ContainsFunc(sw.Record.Members, func(m api.Member) bool { return m.Phase == api.MemberWaiting })
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
func (sw swapping) releaseToStart(member *api.Member) {
	pod := sw.heldPod(member)
	member.ReleasedAt = operation.Moment(sw.Now)
	sw.enterPhase(member, api.MemberStarting)
	sw.Reason = api.ClaimsSwapped
	if pod != nil {
		sw.Do(api.ClaimsSwapped, release(pod)...)
	}
}
