package backup

import (
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/world"
)

// retainSources sets the member's volumes to Retain, so that the loss of a claim never deletes data. It also links claims and volumes.
func (w *work) retainSources(member *api.Member) []plan.Action {
	var actions []plan.Action
	for i := range member.Claims {
		move := &member.Claims[i]
		volume, claim := w.Volume(move.OldVolume), w.Claim(move.Claim)
		if volume == nil || claim == nil || move.Moved {
			continue // revertReason has found it, or the move is done
		}
		link := w.link(api.RoleSource, move.Claim)
		actions = append(actions, world.HoldVolume(volume, link).Actions()...)
		actions = append(actions, plan.PatchOf(plan.Claims, claim).Link(link).Actions()...)
		if fresh := w.Volume(move.NewVolume); w.record.IsRollback() && fresh != nil { // its retention must not end during the rollback
			actions = append(actions, world.HoldVolume(fresh, w.returningLink(move)).Actions()...)
		}
	}
	return actions
}

// returningLink returns the link of an old volume that a rollback restores. It names the operation that left the volume, in case the
// rollback fails.
func (w *work) returningLink(move *api.Move) api.Link {
	link := w.link(api.RoleReturning, move.Claim)
	present, err := api.LoadLink(w.Volume(move.NewVolume))
	switch {
	case err != nil || present == nil: // oldVolumeAvailable has checked it
	case present.Operation == w.record.Operation && present.Role == api.RoleReturning:
		return *present
	case present.Operation != w.record.Operation:
		link.Before = present.Operation
	}
	return link
}

// sourceUnchanged reports whether the claim still has the recorded UID and is bound to the recorded volume.
func sourceUnchanged(in Input, move *api.Move) bool {
	claim, volume := in.Claim(move.Claim), in.Volume(move.OldVolume)
	return claim != nil && claim.UID == move.UID && claim.DeletionTimestamp == nil && volume != nil && statefulset.Bound(claim, volume)
}

// oldVolumeAvailable reports whether the old volume exists and was left by this very claim. Drydock writes no record that names another
// volume.
func oldVolumeAvailable(in Input, record *api.Resize, move *api.Move) bool {
	volume := in.Volume(move.NewVolume)
	if volume == nil || volume.Status.Phase != corev1.VolumeReleased {
		return false
	}
	link, err := api.LoadLink(volume)
	switch {
	case err != nil || link == nil || link.Namespace != in.Set.Namespace || link.Set.Name != in.Set.Name || link.Claim != move.Claim:
		return false
	case link.Role == api.RoleReturning:
		return link.Operation == record.Operation
	}
	return link.Role == api.RoleOldVolume && link.Operation == record.RollsBack
}
