package detectresize

import (
	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/text"
)

// startRollback starts a rollback at the user's request. A refusal does not change the record, because the record belongs to the operation
// that was to be rolled back.
func startRollback(in Input, operation string) plan.Plan {
	changes := resize.Rollback(in.Input, operation)
	if len(changes.Problems) > 0 {
		return refuseRollback(in, changes.Problems[0])
	}
	if found := resize.StartObstacles(in.Input, changes); len(found) > 0 && found[0].PassesByItself() {
		return waitForObstacle(in, found[0])
	} else if len(found) > 0 {
		return refuseRollback(in, found[0])
	}
	if found := resize.PreflightRollback(in.Input, changes, operation); len(found) > 0 {
		return refuseRollback(in, found[0])
	}
	record := changes.Record(in.Input)
	record.Trace, record.Reason = in.Trace, api.ResizeDetected
	record.Message = text.Number(len(record.Moves()), "claim will get back its old volume", "claims will get back their old volumes") +
		" from operation " + operation
	return handToPauseOwner(in, record)
}

// refuseRollback reports the problem in an Event and removes the rollback annotation.
func refuseRollback(in Input, found resize.Problem) plan.Plan {
	patch := plan.PatchOf(plan.StatefulSets, in.Set).Unannotate(api.RollbackAnnotation)
	return plan.Do(found.Reason, append(patch.Actions(), warn(in, "", found.Reason, "the rollback is refused: "+found.Message))...)
}
