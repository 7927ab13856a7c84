package restore

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/world"
)

// swap puts another volume behind the name of one claim while the pod that uses the claim is held. Each step is recognised from the live
// objects alone:
//
//  1. Both volumes are retained, whatever happens to claims, and the temporary claim is deleted so that the new volume becomes free. A
//     mover that has made its copy stays and keeps both volumes attached (replace.go). Any other mover is deleted first.
//  2. The new volume is reserved for the claim's name by a claimRef without UID. The same write stores the manifest of the successor
//     claim on the volume.
//  3. The old claim gets Drydock's finalizer and is deleted. The scheduler places no pod on a terminating claim (kubernetes
//     pkg/scheduler/framework/plugins/volumebinding), and the kubelet starts none (pkg/kubelet/volumemanager/populator). So nothing can
//     write to the old volume any more. If the same pod is still held, nothing has written to it since the final pass.
//  4. Restore removes the claim's protection finalizer and its own, and the claim disappears. Kubernetes itself keeps the protection as
//     long as a scheduled pod names the claim, running or ended (pkg/controller/volume/pvcprotection).
//  5. The claim is created from the manifest and is bound to the reserved volume.
//
// If the pod is no longer held at step 3, the copy may be stale. Then the old volume is reserved instead, and the claim returns to it. The
// reservation of the new volume is withdrawn first, so a missing claim always belongs to the one volume that is reserved for it.
type swap struct {
	Input
	record *api.Resize
	member *api.Member
	move   *api.Move
	// held is true if the member's pod has stopped, and has been held since before the copy was verified.
	held bool
	// newIsComplete is true if the new volume has all data. In a rollback, the returning volume counts as complete.
	newIsComplete bool
	// rollback is true if an old volume returns. Data written to the present volume is discarded anyway.
	rollback bool
	// givingUp is true if the operation is given up, so no new swap begins.
	givingUp bool
	// rollbackPartial is true if a rollback has begun to replace claims that must come back together, memberPartial if one of them is this
	// member's. See rollbackBegan.
	rollbackPartial, memberPartial bool

	claim    *corev1.PersistentVolumeClaim // nil: no claim has the name
	old, new *corev1.PersistentVolume
}

// step is the next step of a swap, or its result when nothing is left to do.
type step struct {
	actions []plan.Action
	waiting string // what must happen first
	// settledOn is the claim's volume once nothing is left to do.
	settledOn *corev1.PersistentVolume
}

func act(actions []plan.Action) step { return step{actions: actions} }

func wait(format string, args ...any) step { return step{waiting: fmt.Sprintf(format, args...)} }

// newSwap returns the swap of one claim of a member, as the live objects show it.
func newSwap(in Input, record *api.Resize, member *api.Member, move *api.Move) swap {
	s := swap{Input: in, record: record, member: member, move: move, claim: in.Claim(move.Claim), old: in.Volume(move.OldVolume),
		new: in.Volume(move.NewVolume)}
	s.held = member.StoppedAt != nil && in.heldPod(member) != nil && in.foreignPod(record, member.Pod, move) == nil
	s.rollback = record.IsRollback()
	s.newIsComplete = s.new != nil && s.new.DeletionTimestamp == nil &&
		(s.rollback && isReturning(s.new, record.Operation) || move.Verified && isNewVolume(s.new, record.Operation, move.Claim) ||
			reservedFor(s.new) == move.Claim)
	if s.rollback {
		s.rollbackPartial, s.memberPartial = in.rollbackBegan(record, member)
		s.newIsComplete = s.newIsComplete && in.oldVolumesAvailable(record, member)
	}
	return s
}

// misplaced reports whether the claim names the new volume and was never bound, while the old volume is reserved for its name. A slow
// process created it: after that process read the claims, the hold was lost. Kubernetes does not bind such a claim, so nothing is in it.
func (s swap) misplaced() bool {
	return s.claim != nil && s.claim.Status.Phase == corev1.ClaimPending && s.new != nil && s.claim.Spec.VolumeName == s.new.Name &&
		reservedFor(s.new) == "" && s.old != nil && reservedFor(s.old) == s.move.Claim
}

// getsNewVolume reports whether a terminating claim gets the new volume. A claim that was already on the new volume must get it back,
// because the member may have written to it.
func (s swap) getsNewVolume() bool {
	return s.newIsComplete && (s.held || s.rollback) ||
		s.new != nil && s.claim != nil && s.claim.Spec.VolumeName == s.new.Name && !s.misplaced()
}

// next returns the next step.
func (s swap) next() step {
	switch {
	case s.claim == nil:
		return s.create()
	case s.claim.DeletionTimestamp != nil:
		return s.finishDeletion()
	case s.misplaced():
		if problem := statefulset.HeldByOthers("claim", s.claim); problem != "" {
			return wait("%s", problem)
		}
		return act([]plan.Action{plan.Delete(plan.Claims, s.claim)})
	case s.new != nil && s.claim.Spec.VolumeName == s.new.Name:
		return settleClaim(s.Input, s.claim, s.new)
	case s.claim.Spec.VolumeName == s.move.OldVolume:
		return s.begin()
	case s.claim.Spec.VolumeName == "":
		return awaitBinding(s.claim, s.reservedVolume())
	}
	if s.givingUp && !statefulset.Held(s.MemberPod(s.member.Ordinal)) { // the operation is given up, so its volumes need not stay reserved
		if back := append(s.unreserve(s.new), s.unreserve(s.old)...); len(back) > 0 {
			return act(s.ifClaimUnchanged(back))
		}
	}
	return wait("claim %s is bound to volume %s instead of its old volume %s or its new one %s; delete the claim if volume %[2]s is empty",
		s.claim.Name, s.claim.Spec.VolumeName, s.move.OldVolume, s.move.NewVolume)
}

// begin reserves the new volume and deletes the claim that is on its old volume. If the claim must stay on its old volume, begin
// withdraws the reservation.
func (s swap) begin() step {
	if (s.givingUp || !s.held || !s.newIsComplete) && !s.mustFollowRollback() {
		return s.stayOnOld()
	}
	if problem := statefulset.HeldByOthers("claim", s.claim); problem != "" {
		return wait("%s", problem) // a deletion cannot be undone
	}
	freeing, done := s.freeNew()
	if !done {
		return freeing
	}
	var actions []plan.Action
	if s.reservedVolume() != s.new {
		reserve := s.reserve(s.new, s.move.Target())
		if reserve.waiting != "" {
			return reserve
		}
		actions = reserve.actions
	}
	actions = append(actions, freeing.actions...) // last, because the volume controller immediately writes to a volume that loses its claim
	actions = append(actions, plan.PatchOf(plan.Claims, s.claim).AddFinalizer(api.FreezeFinalizer).Actions()...)
	return act(append(actions, plan.Delete(plan.Claims, s.claim))) // only in this state, without any other finalizer
}

// stayOnOld leaves the claim on its old volume.
func (s swap) stayOnOld() step {
	if back := s.withdrawReservation(); len(back) > 0 {
		return act(back)
	}
	if s.old == nil {
		return wait("volume %s of claim %s no longer exists", s.move.OldVolume, s.claim.Name)
	}
	return settleClaim(s.Input, s.claim, s.old)
}

// freeNew retains both volumes and frees the new one from the mover and its temporary claim. It reports true if the step frees the
// volume, or the volume is already free.
func (s swap) freeNew() (next step, done bool) {
	link := s.record.Link(api.RoleTarget, s.Namespace).OfClaim(s.move.Claim)
	source := link
	source.Role = api.RoleSource
	actions := world.HoldVolume(s.new, existingLink(s.new, link)).Actions()
	if s.old != nil { // else the copy is the only data
		actions = append(actions, world.HoldVolume(s.old, existingLink(s.old, source)).Actions()...)
	}
	actions = append(actions, s.endMovers()...)
	target := s.TargetClaim(s.record.Operation, s.move)
	if target != nil && target.DeletionTimestamp == nil {
		actions = append(actions, plan.Delete(plan.Claims, target))
	}
	switch {
	case len(actions) > 0:
		return act(actions), false
	case target == nil:
		return step{}, true
	case s.heldOnlyByPins(target):
		return act(plan.PatchOf(plan.Claims, target).RemoveFinalizer(claimProtection).Actions()), true
	}
	return wait("temporary claim %s is held by %s", target.Name, deletionHolder(s.Input, target)), false
}

// endMovers deletes the member's Jobs, because their pods use the claim. Pins stay, because they only keep the volumes attached.
func (s swap) endMovers() []plan.Action {
	if s.pinned() {
		return nil
	}
	return endMovers(s.Input, s.record, s.member)
}
