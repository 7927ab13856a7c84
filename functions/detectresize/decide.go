package detectresize

import (
	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resize"
)

// Decide starts an operation only if the preflight finds no problem. A refusal is stored once, with an Event that says why. The request is
// judged again each time, so that it starts when the cause of the refusal is gone. Decide is pure.
func Decide(in Input) plan.Plan {
	if record := expandingRecord(in); record != nil {
		return expandClaims(in, record)
	}
	if id := requestedRollback(in); id != "" {
		return startRollback(in, id)
	}
	wanted, noChanges := wantedChanges(in)
	if wanted == nil {
		return noChanges
	}
	switch found := firstObstacle(in, wanted); {
	case found == nil:
		return startResize(in, wanted)
	case found.PassesByItself():
		return waitForObstacle(in, *found)
	default:
		return refuse(in, wanted, *found)
	}
}

// startResize stores the record of the operation. In the next step, claims that can grow in place do so. Nothing else is touched before
// pause-owner has paused the owner.
func startResize(in Input, w *resize.Changes) plan.Plan {
	record := w.Record(in.Input)
	record.Trace = in.Trace
	record.Reason, record.Message = api.ResizeDetected, operation.Announcement(record)
	if len(record.Expansions) == 0 {
		return handToPauseOwner(in, record)
	}
	record = operation.Enter(record, api.Expanding, in.Now, in.Settings.ExpandTimeout)
	store := consumeRetry(in, operation.Store(in.Set, record))
	return plan.Do(api.ResizeDetected, append(store.Actions(), operation.NoteOf(in.Set, record, false))...)
}

// refuse stores the refusal. If the set already has a refusal with the same reason, it only updates the message, without an Event.
func refuse(in Input, w *resize.Changes, found resize.Problem) plan.Plan {
	if standing := in.StandingRefusal(w); standing != nil && standing.Reason == found.Reason {
		if next := in.UpdatedRefusal(standing, found); next != nil {
			return plan.Do(found.Reason, operation.Store(in.Set, next).Actions()...)
		}
		return plan.Noop(api.AlreadyRefused)
	}
	record := w.EmptyRecord(in.Input, api.Refused)
	record.Trace, record.RefusalDigest = in.Trace, operation.RefusalDigest(in.Set)
	record.Reason, record.Message, record.Finished = found.Reason, found.Message, operation.Moment(in.Now)
	patch := consumeRetry(in, operation.Store(in.Set, record))
	return plan.Do(found.Reason, append(patch.Actions(), warn(in, record.Operation, found.Reason, found.Message))...).
		Then(events.OperationFailed, record.Operation)
}
