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

// handleStarting waits until the member is ready again.
func (w *work) handleStarting(member *api.Member) {
	pod := w.MemberPod(member.Ordinal)
	if pod != nil && pod.UID == member.Pod && (statefulset.Held(pod) || member.Locked) {
		if !w.claimsBound(member) { // another process has deleted a claim since the swap
			w.enterPhase(member, api.MemberSwapping)
			member.ReleasedAt = nil
			w.Reason = api.SwapRunning
			return
		}
		w.Do(api.ClaimsSwapped, release(pod)...)
		if w.pastDeadline(member) {
			w.reportRejectedRelease(pod)
		}
		return
	}
	if step := w.missingClaimStep(member); step != nil {
		w.Do(api.SwapRunning, step.actions...)
		w.WaitFor(true, "%s", step.waiting)
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
		w.WaitFor(true, "%s", w.growingFileSystem(member))
	case pod != nil && pod.UID != member.Pod && statefulset.PodReady(pod):
		w.awaitCatchUp(member, pod)
	case w.pastDeadline(member):
		w.override = w.giveUpNotReady(member, "was not ready", "look at the pod")
	default:
		undecided := w.endMoversInTheWay(member, pod)
		w.WaitFor(undecided, "pod %s-%d starts on its new volumes", w.Name, member.Ordinal)
	}
}

// awaitCatchUp waits until a ready member has caught up on its new volumes; its mover is no longer needed. If it does not catch up in
// time, the operation ends as it does for a pod that is not ready. After a good check, the hook after the member follows.
func (w *work) awaitCatchUp(member *api.Member, pod *corev1.Pod) {
	if member.ReadyAt != nil {
		w.hookAfter(member)
		return
	}
	switch why, known := w.memberLag(pod); {
	case !known:
	case why == "":
		member.ReadyAt = operation.Moment(w.Now)
		w.hookAfter(member)
	case w.pastDeadline(member):
		w.override = w.giveUpNotReady(member, "had not caught up", why)
	default:
		w.WaitFor(false, "%s", why)
		w.Do(api.Behind, endMovers(w.Input, w.Record, member)...)
		w.Record.Reason = api.Behind
		w.Record.Message = fmt.Sprintf("pod %s is ready on its new volumes, and has not caught up: %s", pod.Name, why)
	}
}

// hookAfter runs the hook after a member. The member counts as moved once the hook has succeeded.
func (w *work) hookAfter(member *api.Member) {
	switch w.hookStateOf(resources.AfterMember, member) {
	case hookMissing:
		w.Do(api.HookRunning, endMovers(w.Input, w.Record, member)...)
		w.runHook(resources.AfterMember, member)
	case hookDone:
		w.finishMember(member)
	}
}

// missingClaimStep returns the next step for the first claim that another process has deleted since the swap, or nil. Such a claim is
// gone, or only a pin keeps it.
func (w *work) missingClaimStep(member *api.Member) *step {
	for i := range member.Claims {
		s := newSwap(w.Input, w.Record, member, &member.Claims[i])
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
	w.Do(api.ClaimsSwapped, endMovers(w.Input, w.Record, member)...)
	if !allMoved(w.Record) {
		w.Announce = events.MemberChanged
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
	next := w.Record.Clone()
	next.Member(member.Ordinal).Phase = api.MemberMoved
	move := w.Record.Move(w.strayClaim(member))
	return revert(w.Input, next, api.ClaimLost, fmt.Sprintf("claim %s was deleted after its swap, and pod %s-%d has started on another "+
		"volume. Its data is on volume %s, which is kept for %s: see kubectl "+
		"get pv %s", move.Claim, w.Name, member.Ordinal, move.NewVolume, w.Settings.Retention, move.NewVolume))
}

// giveUpNotReady gives the operation up because a member is not ready, or has not caught up, on its new volumes. No other member is
// stopped then.
func (w *work) giveUpNotReady(member *api.Member, failure, hint string) plan.Plan {
	next := w.Record.Clone()
	next.Member(member.Ordinal).Phase = api.MemberMoved
	return revert(w.Input, next, api.NotReady, fmt.Sprintf("pod %s-%d has its new volumes, but %s in time; %s. "+
		"The old volumes are kept for %s", w.Name, member.Ordinal, failure, hint, w.Settings.Retention))
}
