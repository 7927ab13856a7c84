package detectresize

import (
	"slices"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/text"
)

// startRollback starts a rollback at the user's request. A refusal does not change the record, because the record belongs to the operation
// that was to be rolled back.
func startRollback(in Input, operation string) plan.Plan {
	changes := resize.Rollback(in.Input, operation)
	switch found := rollbackObstacle(in, changes, operation); {
	case found != nil && found.PassesByItself():
		return waitForObstacle(in, *found)
	case found != nil:
		return refuseRollback(in, *found)
	}
	record := changes.Record(in.Input)
	record.Trace, record.Reason = in.Trace, api.ResizeDetected
	record.Message = text.Number(len(record.Moves()), "claim will get back its old volume", "claims will get back their old volumes") +
		" from operation " + operation
	return handToPauseOwner(in, record)
}

// rollbackObstacle returns the first problem that prevents the rollback, or nil.
func rollbackObstacle(in Input, changes *resize.Changes, operation string) *resize.Problem {
	if found := slices.Concat(changes.Problems, resize.StartObstacles(in.Input, changes)); len(found) > 0 {
		return &found[0]
	}
	if found := resize.PreflightRollback(in.Input, changes, operation); len(found) > 0 {
		return &found[0]
	}
	return nil
}

// refuseRollback reports the problem in an Event and removes the rollback annotation, so that the rollback does not begin later, when its
// user no longer thinks of it.
func refuseRollback(in Input, found resize.Problem) plan.Plan {
	patch := plan.PatchOf(plan.StatefulSets, in.Set).Unannotate(api.RollbackAnnotation)
	return plan.Do(found.Reason, append(patch.Actions(), warn(in, "", found.Reason, "the rollback is refused: "+found.Message))...)
}
