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

// swapping puts the new volumes behind the claims of a held member, and releases it when all of them are bound. Where all members stop
// together, they start together.
func (w *work) swapping(member *api.Member) {
	rests := true
	back := false
	w.noteIntruder(member)
	for i := range member.Claims {
		s := swapOf(w.Input, w.record, member, &member.Claims[i])
		step := s.next()
		w.do(api.SwitchRunning, step.actions...)
		switch {
		case step.on == nil && step.waiting != "":
			rests = false
			w.waitFor(true, "%s", step.waiting)
		case step.on == nil:
			rests = false
		case step.on == s.old && !s.move.InPlace:
			back = true
		default:
			member.Claims[i].Moved = true
		}
	}
	switch {
	case !rests && w.tooLong(member) && w.neverBegun(member):
		w.given = revert(w.Input, w.before, api.DeadlineExceeded, fmt.Sprintf("the claims of pod %s-%d could not be switched within %s: %s. "+
			"They were not touched, and the pod starts again on its old volumes. Mend the cause, then "+
			"%s", w.Name, member.Ordinal, w.Settings.SwitchTimeout, w.obstacle(), operation.AskAgain(w.before)))
	case !rests && w.tooLong(member):
		w.stuck(member)
	case !rests:
	case back:
		w.back(member)
	case w.heldTogether(member):
		if !w.followed() {
			w.waitFor(true, "pod %s-%d waits until every member has its new volumes", w.Name, member.Ordinal)
		}
	default:
		w.start(member)
	}
}

// noteIntruder notes in the record that another pod uses a claim of the member that is being deleted: the copies do not count any more. Such a
// pod was placed on the claim before the deletion, may write to the old volume, and may be gone at the next look.
func (w *work) noteIntruder(member *api.Member) {
	if !w.record.Copies() || w.heldPod(member) == nil {
		return
	}
	for i := range member.Claims {
		move := &member.Claims[i]
		claim := w.Claim(move.Claim)
		leaves := claim != nil && claim.DeletionTimestamp != nil && claim.Spec.VolumeName == move.OldVolume && w.Volume(move.OldVolume) != nil
		if leaves && member.Stopped != nil && w.intruder(w.record, member.Pod, move) != nil {
			member.Stopped, w.reason = nil, api.StartedByOthers
		}
	}
}

// neverBegun reports whether no claim of the member was deleted yet, and a lasting obstacle is the cause. Then the member need not stay
// stopped. A short wait does not count: the functions may have been away while the deadline passed.
func (w *work) neverBegun(member *api.Member) bool {
	return (w.Rejected != "" || w.waiting != "" && w.Waited >= lastWait) && !slices.ContainsFunc(member.Claims, w.leaves)
}

// obstacle says what keeps the claims from being switched; empty if that is not known.
func (w *work) obstacle() string {
	if w.Rejected != "" {
		return "the API server refuses a step: " + w.Rejected
	}
	return w.waiting
}

// stuck tells the user why a member stays held: one of its claims is on its way between two volumes, and without it the StatefulSet
// controller would start the pod on an empty volume. It tells of the first such member: the record has one message, and an operation that
// writes it with every look never waits.
func (w *work) stuck(member *api.Member) {
	if w.obstacle() == "" || w.told {
		return // the next step follows at once
	}
	w.told = true
	message := fmt.Sprintf("pod %s-%d is held since %s: %s. Without its claims it would start on an empty volume, so it stays held: do not "+
		"release it by hand. Mend the cause; the rest follows by itself", w.Name, member.Ordinal,
		member.Held.UTC().Format(time.RFC3339), w.obstacle())
	if w.record.Message != message {
		w.say(true, api.DeadlineExceeded, "%s", message)
	}
}

// back releases a member if one of its claims stays on its old volume: the hold was lost, and the pod may have written to it.
func (w *work) back(member *api.Member) {
	if member.Stops >= maxStops {
		w.given = w.stoppedForNothing(fmt.Sprintf("pod %s-%d was started, or another pod has used its claims, before they were switched", w.Name,
			member.Ordinal))
		return
	}
	w.say(true, api.StartedByOthers, "pod %s-%d is stopped once more after stop %d of at most %d: another process has started it, or "+
		"another pod has used its claims, before they were swapped", w.Name, member.Ordinal, member.Stops, maxStops)
	if pod := w.MemberPod(member.Ordinal); pod != nil && (statefulset.Held(pod) && pod.UID == member.Pod ||
		resources.IsLock(pod, w.record.Operation)) {
		w.do(api.StartedByOthers, release(pod)...)
	}
	for i := range member.Claims { // a claim that went back was created again under the same name
		move := &member.Claims[i]
		if claim := w.Claim(move.Claim); claim != nil && claim.Spec.VolumeName == move.OldVolume {
			move.UID = claim.UID
		}
	}
	w.again(member)
	w.announce = events.MemberChanged
}

// heldTogether reports whether another member has still to get its new volumes before any may start.
func (w *work) heldTogether(member *api.Member) bool {
	return w.record.Strategy == api.StrategyWhole && slices.ContainsFunc(w.record.Members, func(m api.Member) bool {
		switch m.Phase {
		case api.MemberPending, api.MemberCopying, api.MemberWaiting: // it was started by others; old data is not served beside newer
			return w.record.IsRollback() && w.record.Phase == api.Moving
		case api.MemberStopping, api.MemberFinalPass:
			return true
		case api.MemberSwapping:
			return m.Ordinal != member.Ordinal && !w.bound(&m)
		}
		return false
	})
}

// followed reports whether a member has to be stopped once more, while others are held on volumes that they have back.
func (w *work) followed() bool {
	return w.record.IsRollback() && slices.ContainsFunc(w.record.Members, func(m api.Member) bool { return m.Phase == api.MemberWaiting })
}

// bound reports whether each of the member's claims is bound to its new volume, and stays so.
func (in Input) bound(member *api.Member) bool {
	for _, move := range member.Claims {
		claim, volume := in.Claim(move.Claim), in.Volume(move.Volume())
		if claim == nil || volume == nil || claim.DeletionTimestamp != nil || !statefulset.Bound(claim, volume) {
			return false
		}
	}
	return true
}

// start releases a member whose claims are all bound to their new volumes. The record, which is written first, has the StatefulSet
// controller look at the set: it does not watch claims, and may have backed off.
func (w *work) start(member *api.Member) {
	pod := w.heldPod(member)
	member.Released = operation.Moment(w.Now)
	w.enter(member, api.MemberStarting)
	w.reason = api.ClaimsSwitched
	if pod != nil {
		w.do(api.ClaimsSwitched, release(pod)...)
	}
}

// starting waits until the member serves again.
func (w *work) starting(member *api.Member) {
	pod := w.MemberPod(member.Ordinal)
	if pod != nil && pod.UID == member.Pod && (statefulset.Held(pod) || member.Locked) {
		if !w.bound(member) { // another process has deleted a claim since
			w.enter(member, api.MemberSwapping)
			w.reason = api.SwitchRunning
			return
		}
		w.do(api.ClaimsSwitched, release(pod)...)
		return
	}
	if lost := w.unbound(member); lost != nil {
		w.do(api.SwitchRunning, lost.actions...)
		w.waitFor(true, "%s", lost.waiting)
		return
	}
	if w.letsClaimGo(member) {
		return
	}
	switch {
	case !w.Wants(member.Ordinal):
		w.moved(member)
	case pod != nil && pod.UID != member.Pod && statefulset.PodReady(pod) && w.stray(member) != "":
		w.given = w.strayed(member)
	case pod != nil && pod.UID != member.Pod && statefulset.PodReady(pod) && w.stillGrows(member) != "" && !w.tooLong(member):
		w.waitFor(true, "%s", w.stillGrows(member))
	case pod != nil && pod.UID != member.Pod && statefulset.PodReady(pod):
		w.follows(member, pod)
	case w.tooLong(member):
		w.given = w.notReady(member, "was not ready", "look at the pod")
	default:
		undecided := w.unpin(member, pod)
		w.waitFor(undecided, "pod %s-%d starts on its new volumes", w.Name, member.Ordinal)
	}
}

// unbound returns the next step for the first claim of the member that another process has deleted since the swap; nil if there is none.
// Such a claim is gone, or only a pin keeps it.
func (w *work) unbound(member *api.Member) *step {
	for i := range member.Claims {
		s := swapOf(w.Input, w.record, member, &member.Claims[i])
		if s.claim == nil || s.keptByPin() {
			step := s.next()
			return &step
		}
	}
	return nil
}

// moved ends the work on a member. Its mover is not needed any more: the member's pod keeps the volumes attached.
func (w *work) moved(member *api.Member) {
	w.enter(member, api.MemberMoved)
	member.Locked = false
	w.do(api.ClaimsSwitched, endMovers(w.Input, w.record, member)...)
	if !allMoved(w.record) {
		w.announce = events.MemberChanged
	}
}

// stray returns a claim of the member that is bound to another volume than its new one, because another process has deleted it since it was
// switched; empty if there is none.
func (w *work) stray(member *api.Member) string {
	for _, move := range member.Claims {
		if claim := w.Claim(move.Claim); claim != nil && claim.Spec.VolumeName != "" && claim.Spec.VolumeName != move.Volume() {
			return move.Claim
		}
	}
	return ""
}

// strayed gives the operation up because a member runs on a volume that is not its own.
func (w *work) strayed(member *api.Member) plan.Plan {
	next := w.record.Clone()
	next.Member(member.Ordinal).Phase = api.MemberMoved
	move := w.record.Move(w.stray(member))
	return revert(w.Input, next, api.ClaimLost, fmt.Sprintf("claim %s was deleted after it was switched, and pod %s-%d has started on "+
		"another volume. Its data is on volume %s, which is kept for %s; look at kubectl get pv "+
		"%s", move.Claim, w.Name, member.Ordinal, move.NewVolume, w.Settings.Retention, move.NewVolume))
}

// notReady gives the operation up because a member does not get ready, or does not catch up, on its new volumes: no other one is stopped
// then.
func (w *work) notReady(member *api.Member, what, look string) plan.Plan {
	next := w.record.Clone()
	next.Member(member.Ordinal).Phase = api.MemberMoved
	return revert(w.Input, next, api.NotReady, fmt.Sprintf("pod %s-%d has its new volumes, but %s within %s; %s. "+
		"The old volumes are kept for %s", w.Name, member.Ordinal, what, w.Settings.ReadyTimeout, look, w.Settings.Retention))
}
