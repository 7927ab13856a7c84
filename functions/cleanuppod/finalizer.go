package cleanuppod

import (
	"drydock.dev/shared/api"
	"drydock.dev/shared/cleanup"
	"drydock.dev/shared/plan"
)

// reconcileFinalizer adds or removes our finalizer, as the set's annotations request. A finalizer cannot be added during deletion.
func (in Input) reconcileFinalizer() plan.Plan {
	present, wanted := cleanup.HasFinalizer(in.Set), cleanup.NeedsFinalizer(in.Set)
	switch {
	case in.Set.DeletionTimestamp != nil || present == wanted || wanted && in.isBeingReplaced():
		return plan.Noop(api.NothingToClean)
	case wanted:
		patch := plan.PatchOf(plan.StatefulSets, in.Set).AddFinalizer(api.CleanupFinalizer).Label(api.FinalizerLabel, api.FinalizerForCleanup)
		return plan.Do(api.FinalizerAdded, patch.Actions()...)
	}
	return plan.Do(api.FinalizerRemoved, removeFinalizer(plan.PatchOf(plan.StatefulSets, in.Set)).Actions()...)
}

// isBeingReplaced reports whether restore replaces the set. Restore removes our finalizer before it deletes the set, and creates the
// new set with it.
func (in Input) isBeingReplaced() bool {
	resize, err := api.LoadResize(in.Set)
	return err == nil && resize.Active() && resize.ReplaceSet
}

// removeFinalizer adds the removal of our finalizer and its label to the patch.
func removeFinalizer(patch *plan.Patch) *plan.Patch {
	return patch.RemoveFinalizer(api.CleanupFinalizer).Unlabel(api.FinalizerLabel)
}
