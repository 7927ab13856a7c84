package detectresize

import (
	"fmt"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resize"
)

// rollback begins to put old volumes back if the user asks for it. A refusal does not change the record: that is of the operation to be
// rolled back.
func rollback(in Input, operation string) plan.Plan {
	wish := resize.Rollback(in.Input, operation)
	if len(wish.Problems) > 0 {
		return refuseRollback(in, wish.Problems[0])
	}
	if found := resize.Unsettled(in.Input, wish); len(found) > 0 && found[0].Settles() {
		return waits(in, found[0])
	} else if len(found) > 0 {
		return refuseRollback(in, found[0])
	}
	if found := resize.PreflightRollback(in.Input, wish, operation); len(found) > 0 {
		return refuseRollback(in, found[0])
	}
	record := wish.Operation(in.Input)
	record.Trace, record.Reason = in.Trace, api.ResizeDetected
	record.Message = fmt.Sprintf("%d claims will get the volumes back that operation %s has left behind", len(record.Moves()), operation)
	return hand(in, record)
}

func refuseRollback(in Input, found resize.Problem) plan.Plan {
	patch := plan.PatchOf(plan.StatefulSets, in.Set).Unannotate(api.RollbackAnnotation)
	return plan.Do(found.Reason, append(patch.Actions(), warn(in, "", found.Reason, "no rollback: "+found.Message))...)
}

// rollsBack returns the operation that the user asks to roll back; empty if there is none, or nothing may begin now.
func rollsBack(in Input) string {
	if reason, _ := resize.Busy(in.Input); reason != "" { //nolint:errcheck // want reports it
		return ""
	}
	return in.Set.Annotations[api.RollbackAnnotation]
}
