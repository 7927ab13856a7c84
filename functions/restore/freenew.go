package restore

import (
	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/world"
)

// freeNew retains both volumes and frees the new one from the mover and its temporary claim. It reports true if the step frees the
// volume, or the volume is already free.
func (s swap) freeNew() (next step, done bool) {
	link := api.Link{Operation: s.record.Operation, Role: api.RoleTarget, Namespace: s.Namespace, Set: s.record.Set, Claim: s.move.Claim}
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
