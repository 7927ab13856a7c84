package restore

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
)

// starting waits until a member runs on its new volumes.
type starting struct{ *work }

func (w *work) starting() starting { return starting{w} }

// handleStarting waits until the member is ready again.
func (st starting) handleStarting(member *api.Member) {
	pod := st.MemberPod(member.Ordinal)
	if pod != nil && pod.UID == member.Pod && (statefulset.Held(pod) || member.Locked) {
		if !st.claimsBound(member) { // another process has deleted a claim since the swap
			st.enterPhase(member, api.MemberSwapping)
			member.ReleasedAt = nil
			st.Reason = api.SwapRunning
			return
		}
		st.Do(api.ClaimsSwapped, release(pod)...)
		if st.pastDeadline(member) {
			st.undoing().reportRejectedRelease(pod)
		}
		return
	}
	if step := st.missingClaimStep(member); step != nil {
		st.Do(api.SwapRunning, step.actions...)
		st.WaitFor(true, "%s", step.waiting)
		return
	}
	if st.endMoversOfDeletedClaim(member) {
		return
	}
	switch {
	case !st.Wants(member.Ordinal):
		st.finishMember(member)
	case pod != nil && pod.UID != member.Pod && statefulset.PodReady(pod) && st.strayClaim(member) != "":
		st.override = st.giveUpStrayed(member)
	case pod != nil && pod.UID != member.Pod && statefulset.PodReady(pod) && st.swapping().growingFileSystem(member) != "" &&
		!st.pastDeadline(member):
		st.WaitFor(true, "%s", st.swapping().growingFileSystem(member))
	case pod != nil && pod.UID != member.Pod && statefulset.PodReady(pod):
		st.awaitCatchUp(member, pod)
	case st.pastDeadline(member):
		st.override = st.giveUpNotReady(member, "was not ready", "look at the pod")
	default:
		undecided := st.endMoversInTheWay(member, pod)
		st.WaitFor(undecided, "pod %s-%d starts on its new volumes", st.Name, member.Ordinal)
	}
}

// awaitCatchUp waits until a ready member has caught up on its new volumes; its mover is no longer needed. If it does not catch up in
// time, the operation ends as it does for a pod that is not ready. After a good check, the hook after the member follows.
func (st starting) awaitCatchUp(member *api.Member, pod *corev1.Pod) {
	if member.ReadyAt != nil {
		st.hookAfter(member)
		return
	}
	switch why, known := st.gate().memberLag(pod); {
	case !known:
	case why == "":
		member.ReadyAt = operation.Moment(st.Now)
		st.hookAfter(member)
	case st.pastDeadline(member):
		st.override = st.giveUpNotReady(member, "had not caught up", why)
	default:
		st.WaitFor(false, "%s", why)
		st.Do(api.Behind, endMovers(st.Input, st.Record, member)...)
		st.Record.Reason = api.Behind
		st.Record.Message = fmt.Sprintf("pod %s is ready on its new volumes, and has not caught up: %s", pod.Name, why)
	}
}

// hookAfter runs the hook after a member. The member counts as moved once the hook has succeeded.
func (st starting) hookAfter(member *api.Member) {
	switch st.memberHooks().hookStateOf(resources.AfterMember, member) {
	case hookMissing:
		st.Do(api.HookRunning, endMovers(st.Input, st.Record, member)...)
		st.memberHooks().runHook(resources.AfterMember, member)
	case hookDone:
		st.finishMember(member)
	}
}

// missingClaimStep returns the next step for the first claim that another process has deleted since the swap, or nil. Such a claim is
// gone, or only a pin keeps it.
func (st starting) missingClaimStep(member *api.Member) *step {
	for i := range member.Claims {
		s := newSwap(st.Input, st.Record, member, &member.Claims[i])
		if s.claim == nil || s.keptOnlyByPins() {
			step := s.next()
			return &step
		}
	}
	return nil
}

// finishMember ends the work on a member. Its mover is no longer needed, because the member's pod now keeps the volumes attached.
func (st starting) finishMember(member *api.Member) {
	st.enterPhase(member, api.MemberMoved)
	member.Locked = false
	st.Do(api.ClaimsSwapped, endMovers(st.Input, st.Record, member)...)
	if !allMoved(st.Record) {
		st.Announce = events.MemberChanged
	}
}

// strayClaim returns a claim of the member that is bound to another volume than its new one, or empty. That happens if another process
// deletes the claim after its swap.
func (st starting) strayClaim(member *api.Member) string {
	for _, move := range member.Claims {
		if claim := st.Claim(move.Claim); claim != nil && claim.Spec.VolumeName != "" && claim.Spec.VolumeName != move.Volume() {
			return move.Claim
		}
	}
	return ""
}

// giveUpStrayed gives the operation up because a member runs on a volume that is not its own.
func (st starting) giveUpStrayed(member *api.Member) plan.Plan {
	next := st.Record.Clone()
	next.Member(member.Ordinal).Phase = api.MemberMoved
	move := st.Record.Move(st.strayClaim(member))
	return revert(st.Input, next, api.ClaimLost, fmt.Sprintf("claim %s was deleted after its swap, and pod %s-%d has started on another "+
		"volume. Its data is on volume %s, which is kept for %s: see kubectl "+
		"get pv %s", move.Claim, st.Name, member.Ordinal, move.NewVolume, st.Settings.Retention, move.NewVolume))
}

// giveUpNotReady gives the operation up because a member is not ready, or has not caught up, on its new volumes. No other member is
// stopped then.
func (st starting) giveUpNotReady(member *api.Member, failure, hint string) plan.Plan {
	next := st.Record.Clone()
	next.Member(member.Ordinal).Phase = api.MemberMoved
	return revert(st.Input, next, api.NotReady, fmt.Sprintf("pod %s-%d has its new volumes, but %s in time; %s. "+
		"The old volumes are kept for %s", st.Name, member.Ordinal, failure, hint, st.Settings.Retention))
}
