package cleanuppod

import (
	"slices"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/statefulset"
)

// isResizing reports whether the set is being resized, or one of its claims is incomplete.
func (in Input) isResizing() bool {
	return operation.Of(in.Set).Resizing() || slices.Contains(in.Records, api.RoleJournal)
}

// isAsleep reports whether the set is asleep. Its replicas are then expected back, so their claims must be kept. The records show a
// sleep even if another client removed the set's annotation. A set that was restored from a backup of a sleeping one was not scaled down.
func (in Input) isAsleep() bool {
	return operation.Of(in.Set).Sleeping() || api.FormerSleep(in.Set) != nil ||
		slices.Contains(in.Records, api.RoleSleep) || slices.Contains(in.Records, api.RoleOwner)
}

// isScaling reports whether the set is being scaled and the scaling does not wait for this cleanup.
func (in Input) isScaling() bool {
	r := operation.Of(in.Set)
	return r.Scaling() && !r.AwaitsCleanup()
}

// isPaused reports whether members of the set are stopped by a pause of its Scaler, so they are not removed. The Scaler shows the
// pause if the set's record was lost. The record shows it if the Scaler is gone, or another client started some members.
func (in Input) isPaused() bool {
	scale := operation.Of(in.Set).Scale
	return in.Paused && statefulset.Replicas(in.Set) == 0 || scale != nil && scale.Paused
}

// isRetried reports whether the user requests a retry of a failed or refused cleanup.
func (in Input) isRetried(record *api.Cleanup) bool {
	_, annotated := in.Set.Annotations[api.RetryAnnotation]
	return (annotated || in.Retry) && operation.CleanupRests(record)
}

// isAborted reports whether the user requests an abort.
func (in Input) isAborted() bool {
	_, asked := in.Set.Annotations[api.AbortAnnotation]
	return asked
}
