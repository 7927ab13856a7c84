package restore

import (
	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

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
