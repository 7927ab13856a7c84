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
func (s stopping) handleFinalPass(member *api.Member) {
	switch {
	case s.heldPod(member) == nil:
		s.handleLostHold(member, fmt.Sprintf("the hold of pod %s-%d was removed during its final pass", s.Name, member.Ordinal))
	case s.gate().otherClaimUser(member, member.Pod) != "": // it may be gone before the swap, and then its writes would be lost
		s.handleLostHold(member, s.gate().otherClaimUser(member, member.Pod))
	case s.pastDeadline(member):
		s.cancelStops(fmt.Sprintf("the final pass of pod %s-%d took longer than twice %s", s.Name, member.Ordinal, api.MaxStopAnnotation))
	case !s.interruptedByLoss(member):
		s.WaitFor(false, "pod %s-%d is in its final pass", s.Name, member.Ordinal)
	}
}

// interruptedByLoss cancels the stop if another member is lost, and reports whether it did. The set needs the held member: an
// OrderedReady set starts no pod above an ordinal that is not ready.
func (s stopping) interruptedByLoss(member *api.Member) bool {
	if s.Record.Strategy != api.StrategyRolling || member.Locked {
		return false
	}
	loss := s.LostMember(member.Ordinal)
	if loss != "" {
		s.cancelStops(loss)
	}
	return loss != ""
}

// handleLostHold has a member copied again after another process has started its pod, because the copy may be stale.
func (s stopping) handleLostHold(member *api.Member, why string) {
	s.cancelStops(why)
	s.copyAgain(member)
}

// cancelStops releases every held member whose claims are not being swapped yet, so that all of them start again on their previous
// volumes.
func (s stopping) cancelStops(why string) {
	if s.noStopLeft() {
		s.override = s.giveUpAfterStops(why)
		return
	}
	var released []string
	for i := range s.Record.Members {
		member := &s.Record.Members[i]
		if !canCancelStop(member) {
			continue
		}
		released = append(released, fmt.Sprintf("pod %s-%d starts again on its %s volumes after try %d of at most %d to stop it", s.Name,
			member.Ordinal,
			formerVolumes(s.Record), member.Stops, maxStops))
		if pod := s.MemberPod(member.Ordinal); pod != nil && (pod.UID == member.Pod || member.Locked) {
			s.dropPlannedWrites(pod)
			if !s.mustStayHeld(pod) { // else staleHoldReleases releases it later
				s.Do(api.StartedByOthers, release(pod)...)
			}
		}
		s.copyAgain(member)
	}
	switch more := len(released) - 1; {
	case more == 1:
		released[0] += ", and one more member"
	case more > 1:
		released[0] += fmt.Sprintf(", and %d more members", more)
	}
	s.Report(s.Set, true, api.StartedByOthers, "%s: %s", released[0], why)
	s.Announce = events.MemberChanged
}

// dropPlannedWrites removes the writes to the pod that this plan already contains. A member that comes first in the record may be held or
// evicted by the plan before the loss of another member is found.
func (s stopping) dropPlannedWrites(pod *corev1.Pod) {
	s.Drop(func(a plan.Action) bool { return a.Resource == plan.Pods && a.Name == pod.Name })
}

// giveUpAfterStops gives the operation up, because one more stop would not help.
func (s stopping) giveUpAfterStops(why string) plan.Plan {
	return revert(s.Input, s.Before, api.StartedByOthers,
		fmt.Sprintf("a member was stopped %d times and could not be moved: %s. Fix the cause, then %s",
			maxStops, why, operation.HowToRetry(s.Namespace, s.Before)))
}

// noStopLeft reports whether a held member has used all its stops.
func (s stopping) noStopLeft() bool {
	return slices.ContainsFunc(s.Record.Members, func(m api.Member) bool {
		return m.Stops >= maxStops && canCancelStop(&m)
	})
}

// copyAgain resets a member so that it is copied again, because its verified copy may be stale.
func (s stopping) copyAgain(member *api.Member) {
	if member.Phase == api.MemberCopying || !s.Record.Copies() && member.Phase == api.MemberWaiting {
		return
	}
	// The final pass may have finished, so no mover may write to that volume again.
	finished := member.StoppedAt != nil || member.Phase == api.MemberSwapping
	s.enterPhase(member, api.MemberCopying)
	if !s.Record.Copies() {
		s.enterPhase(member, api.MemberWaiting)
	}
	member.Attempt++
	member.Pod, member.Locked, member.HeldAt, member.StoppedAt = "", false, nil, nil
	for i := range member.Claims {
		move := &member.Claims[i]
		if move.Moved {
			continue
		}
		if move.Verified = false; finished && s.Record.Copies() {
			move.DiscardCopy()
		}
	}
	s.Reason = api.StartedByOthers
}

// canCancelStop reports whether the member is held and can still start on its volumes as they are.
func canCancelStop(member *api.Member) bool {
	return member.Phase == api.MemberStopping || member.Phase == api.MemberFinalPass || member.Phase == api.MemberGrowing
}
