package detectresize

import (
	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
)

// handToPauseOwner hands the operation to pause-owner. backup and restore follow.
func handToPauseOwner(in Input, record *api.Resize) plan.Plan {
	next := operation.Enter(record, api.Planned, in.Now, in.Settings.PlanTimeout)
	patch := consumeRetry(in, operation.Store(in.Set, next)).Unannotate(api.RollbackAnnotation)
	return plan.Do(next.Reason, append(patch.Actions(), operation.NoteOf(in.Set, next, false))...).
		Then(events.ResizeDetected, next.Operation)
}
