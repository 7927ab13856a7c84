package scale

import (
	"fmt"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
)

// beginScaling stores the record of a new scaling before anything else changes. The target does not change until the scaling ends.
func (w work) beginScaling(target int32) plan.Plan {
	if err := w.validateHooks(); err != nil {
		return w.report(&problem{reason: api.HookInvalid, message: err.Error()})
	}
	if removed := statefulset.Replicas(w.Set) - target; w.hasPreHook() && removed > resources.MaxOrdinals {
		return w.report(&problem{reason: api.HookInvalid, message: fmt.Sprintf("the pre hook can be given at most %d members to remove, "+
			"not %d. "+
			"Scale down in smaller steps", resources.MaxOrdinals, removed)})
	}
	next := w.enterPhase(w.newRecord(api.PreScaling, statefulset.Replicas(w.Set), target), api.PreScaling)
	next.Reason, next.Message = api.ScalingStarted, fmt.Sprintf("scaling from %d to %d", next.Previous, next.Target)
	return w.storeRecord(api.ScalingStarted, next, w.eventFor(next, false))
}

// recordLiveCount stores that another client has already scaled the set to the requested count, so that no scaling is needed.
func (w work) recordLiveCount(live int32) plan.Plan {
	next := w.newRecord(api.Succeeded, live, live)
	next.Reason, next.Message = api.CountAdopted, fmt.Sprintf("the StatefulSet already has the requested %d members", live)
	next.Finished = operation.Moment(w.Now)
	return w.storeRecord(api.CountAdopted, next)
}
