package cleanuppod

import (
	"drydock.dev/shared/api"
	"drydock.dev/shared/cleanup"
	"drydock.dev/shared/events"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
)

// refuse stores why the set cannot be cleaned up, and reports it once. It cancels a running cleanup.
func (in Input) refuse(record *api.Cleanup, problem *cleanup.Problem) plan.Plan {
	if record.Active() {
		return in.cancel(record, problem.Reason, problem.Message)
	}
	if in.isRefused(record) {
		return plan.Noop(api.AlreadyRefused)
	}
	next := in.newRecord(record, api.Refused, problem.Reason, problem.Message)
	next.Operation = api.OperationID(in.Set.UID, string(api.Refused)+next.Request, next.Attempt) // differs from every real cleanup
	next.Finished = operation.Moment(in.Now)
	return plan.Do(problem.Reason, append(in.store(next).Actions(), operation.NoteOf(in.Set, next, true))...).
		Then(events.OperationFailed, next.Operation).For(api.KindCleanup)
}
