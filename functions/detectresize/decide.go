package detectresize

import (
	corev1 "k8s.io/api/core/v1"

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
	if operation := requestedRollback(in); operation != "" {
		return startRollback(in, operation)
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

// firstObstacle returns the first problem that prevents the resize, or nil. The dry run of the movers' pods comes last: it is made only if
// there is no other problem.
func firstObstacle(in Input, w *resize.Changes) *resize.Problem {
	for _, find := range []func(resize.Input, *resize.Changes) []resize.Problem{
		func(_ resize.Input, w *resize.Changes) []resize.Problem { return w.Problems }, resize.StartObstacles, resize.Preflight,
	} {
		if found := find(in.Input, w); len(found) > 0 {
			return &found[0]
		}
	}
	if in.Denied != "" {
		return &resize.Problem{Reason: api.Rejected, Message: "the API server would reject the pods of the movers: " + in.Denied +
			". Remove the cause, or change the movers with the annotation " + api.MoverAnnotation}
	}
	if in.HookDenied != "" {
		return &resize.Problem{Reason: api.Rejected, Message: "the API server would reject the pod of annotation " + in.HookDenied +
			". Remove the cause, or change the annotation"}
	}
	return nil
}

// moverToTry returns the pod of a mover for a dry run. It is nil if no resize would start now, or if it would copy nothing.
func moverToTry(in Input) *corev1.Pod {
	if wanted, _ := wantedChanges(in); wanted != nil && requestedRollback(in) == "" && firstObstacle(in, wanted) == nil {
		return resize.MoverPod(in.Input, wanted)
	}
	return nil
}

// wantedChanges returns the changes that the request needs. If there are none, it returns the plan for that situation.
func wantedChanges(in Input) (*resize.Changes, plan.Plan) {
	wanted, reason, err := resize.NeededChanges(in.Input)
	switch {
	case wanted != nil:
		return wanted, plan.Plan{}
	case err != nil:
		return nil, plan.Do(reason, warn(in, "", reason, err.Error()))
	case reason == api.UpToDate:
		return nil, plan.Do(reason, consumeRetry(in, plan.PatchOf(plan.StatefulSets, in.Set)).Actions()...)
	}
	return nil, plan.Noop(reason)
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

// handToPauseOwner hands the operation to pause-owner. backup and restore follow.
func handToPauseOwner(in Input, record *api.Resize) plan.Plan {
	next := operation.Enter(record, api.Planned, in.Now, in.Settings.PlanTimeout)
	patch := consumeRetry(in, operation.Store(in.Set, next)).Unannotate(api.RollbackAnnotation)
	return plan.Do(next.Reason, append(patch.Actions(), operation.NoteOf(in.Set, next, false))...).
		Then(events.ResizeDetected, next.Operation)
}

// refuse stores the refusal. If the set already has a refusal with the same reason, it only updates the message, without an Event.
func refuse(in Input, w *resize.Changes, found resize.Problem) plan.Plan {
	if standing := in.StandingRefusal(); standing != nil && standing.Reason == found.Reason {
		if next := in.UpdatedRefusal(standing, found); next != nil {
			return plan.Do(found.Reason, operation.Store(in.Set, next).Actions()...)
		}
		return plan.Noop(api.AlreadyRefused)
	}
	record := w.EmptyRecord(in.Input, api.Refused)
	record.Trace, record.RefusalDigest = in.Trace, resize.RefusalDigest(in.Set)
	record.Reason, record.Message, record.Finished = found.Reason, found.Message, operation.Moment(in.Now)
	patch := consumeRetry(in, operation.Store(in.Set, record))
	return plan.Do(found.Reason, append(patch.Actions(), warn(in, record.Operation, found.Reason, found.Message))...).
		Then(events.OperationFailed, record.Operation)
}

// warn returns the action that creates a Warning Event on the set.
func warn(in Input, operation string, reason api.Reason, message string) plan.Action {
	return plan.Record(in.Set.Namespace, in.Set.Name,
		plan.Note{Warning: true, Reason: reason, Message: message, UID: in.Set.UID, Operation: operation})
}
