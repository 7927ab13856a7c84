package backup

import (
	"fmt"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/sts"
)

// refuseTargetsApart ends the operation when a new volume was provisioned where the old one cannot be reached, as a class with the binding
// mode Immediate may do: no mover could ever start, before or after the set is stopped.
func refuseTargetsApart(in Input, status *api.Resize) (plan.Plan, bool) {
	for _, part := range pending(status) {
		target := in.TargetClaim(status.Operation, part.Name, status.Round)
		if part.Returns() || target == nil {
			continue
		}
		old := sts.NodesOfVolume(in.Volume(part.OldVolume))
		fresh := sts.NodesOfVolume(in.Volume(target.Spec.VolumeName))
		if old.Apart(fresh) {
			return failed(in, status, fmt.Sprintf("the new volume %s of claim %s is reachable from nodes with %s only, "+
				"its volume %s from nodes with %s only, so no node can mount both. Name a StorageClass with volumeBindingMode WaitForFirstConsumer, or with volumes there",
				target.Spec.VolumeName, part.Name, fresh, part.OldVolume, old)), true
		}
	}
	return plan.Plan{}, false
}

// awaitFinalizers keeps the set running while a claim, or the set, has a finalizer of another controller: a snapshot or a clone may have
// begun after the preflight. Once the set is stopped, waiting would be downtime.
func awaitFinalizers(in Input, status *api.Resize) (plan.Plan, bool) {
	held := heldByOthers(in, status)
	if status.Stopping != nil || held == "" {
		return plan.Plan{}, false
	}
	next := status.Clone()
	next.Reason, next.Message = api.ForeignFinalizer, "the set is not stopped yet: "+held
	if store := operation.Store(in.Set, next); !store.Empty() {
		return plan.Do(api.ForeignFinalizer, append(store.Actions(), operation.NoteOf(in.Set, next, true))...), true
	}
	return plan.Wait(api.ForeignFinalizer, "%s", held), true
}

// heldByOthers says which foreign finalizer would stop the switch; empty if none would.
func heldByOthers(in Input, status *api.Resize) string {
	for _, part := range pending(status) {
		claim := in.Claim(part.Name)
		if claim == nil {
			continue
		}
		if held := sts.HeldByOthers("claim", claim); held != "" {
			return held
		}
	}
	if status.Recreate {
		return sts.HeldByOthers("StatefulSet", in.Set)
	}
	return ""
}
