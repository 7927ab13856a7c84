package detectresize

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/text"
)

// Input is everything that Decide considers.
type Input struct {
	// Input has the facts that a resize depends on. Its Cluster is read only if the request needs changes.
	resize.Input
	// PodRejected is why the API server would reject the pods of the movers. It is empty if it accepts them, or if nothing is copied.
	PodRejected string
	// HookDenied is why the API server would reject the pod of a hook, with the hook's annotation. It is empty if it accepts all hooks.
	HookDenied string
	// Rejected is why the API server rejected a write of this event for good. It is empty if it did not.
	Rejected string
	// Budget is why a PodDisruptionBudget did not allow the eviction of a pod in this event. It is empty if nothing was denied.
	Budget string
	// Trace is the traceparent of an operation that starts now. It is empty if tracing is off.
	Trace string
}

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

// wantedChanges returns the changes that the request needs. If there are none, it returns the plan for that situation.
func wantedChanges(in Input) (*resize.Changes, plan.Plan) {
	wanted, reason, err := resize.NeededChanges(in.Input)
	switch {
	case wanted != nil:
		return wanted, plan.Plan{}
	case err != nil:
		return nil, plan.Do(reason, warn(in, "", reason, err.Error()))
	case slices.Contains([]api.Reason{api.UpToDate, api.NotRequested, api.AlreadyRefused}, reason) && operation.RetryNamesNothing(in.Set):
		return nil, explainRetry(in)
	case slices.Contains([]api.Reason{api.UpToDate, api.NotRequested, api.AlreadyRefused}, reason) && resize.RollbackNamesNoSet(in.Set):
		return nil, plan.Do(api.RollbackImpossible, warn(in, "", api.RollbackImpossible, fmt.Sprintf("annotation %s has no effect: an operator "+
			"makes StatefulSet %s, and may copy annotations to it again and again. Remove it, also from the resource of the operator, and run "+
			"kubectl drydock rollback -n %s sts/%[2]s", api.RollbackAnnotation, in.Set.Name, in.Set.Namespace)))
	case reason == api.UpToDate, reason == api.NotRequested && !operation.Of(in.Set).SleepRests():
		return nil, removeNeedlessRetry(in, reason)
	}
	return nil, plan.Noop(reason)
}

// requestedRollback returns the id of the operation that the user wants to roll back. It is empty if there is none, or if no operation may
// start now.
func requestedRollback(in Input) string {
	if reason, _ := resize.Busy(in.Input); reason != "" { // want reports it
		return ""
	}
	record, _ := in.Record() // Busy has read it
	return resize.RequestedRollback(in.Set, record)
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
	if in.PodRejected != "" {
		return &resize.Problem{Reason: api.Rejected, Message: "the API server would reject the pods of the movers: " + in.PodRejected +
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

// consumeRetry adds the removal of the retry annotation to the patch. A retry of something else stays.
func consumeRetry(in Input, patch *plan.Patch) *plan.Patch {
	if operation.Of(in.Set).ResizeRetried(in.Set) {
		return patch.Unannotate(api.RetryAnnotation)
	}
	return patch
}

// removeNeedlessRetry removes a retry annotation that repeats nothing, and says in an Event where it belongs. It must not stay: the next
// failure would be retried at once. Under an operator it stays, because it names its operation, and the operator might copy it again each
// time.
func removeNeedlessRetry(in Input, reason api.Reason) plan.Plan {
	records, patch, effect := operation.Of(in.Set), plan.PatchOf(plan.StatefulSets, in.Set), "had no effect and was removed"
	if !records.ResizeRetried(in.Set) {
		return plan.Noop(reason)
	}
	if statefulset.Controller(in.Set) == nil {
		patch.Unannotate(api.RetryAnnotation)
	} else {
		effect = "has no effect, so remove it"
	}
	why := fmt.Sprintf("StatefulSet %s has no resize request, and no sleep or cleanup that failed or was refused", in.Set.Name)
	if reason == api.UpToDate {
		why = fmt.Sprintf("the volumes of StatefulSet %s are as requested", in.Set.Name)
	}
	message := fmt.Sprintf("annotation %s %s: %s%s", api.RetryAnnotation, effect, why, operation.RetriedOtherwise(in.Set, records))
	return plan.Do(reason, append(patch.Actions(), warn(in, "", api.NothingFailed, message))...)
}

// explainRetry says in an Event that a retry of a set that an operator makes must name an operation.
func explainRetry(in Input) plan.Plan {
	return plan.Do(api.NothingFailed, warn(in, "", api.NothingFailed, fmt.Sprintf("annotation %s has no effect: an operator makes "+
		"StatefulSet %s, and may copy annotations to it again and again. So the value must be the id of the operation that failed, as "+
		"%s writes it. Remove this one, also from the resource of the operator",
		api.RetryAnnotation, in.Set.Name, operation.RetryCommand(in.Set))))
}

// waitForObstacle reports in an Event why the resize does not start yet. Each tick tries again. A retry that came as an event is first
// stored as an annotation, so that the next tick finds it.
func waitForObstacle(in Input, found resize.Problem) plan.Plan {
	if records := operation.Of(in.Set); in.Retry != nil && records.Resize != nil && !records.ResizeRetried(in.Set) {
		patch := plan.PatchOf(plan.StatefulSets, in.Set).Annotate(api.RetryAnnotation, records.Resize.Operation)
		return plan.Do(found.Reason, patch.Actions()...)
	}
	message := "the resize waits: " + found.Message
	return plan.Do(found.Reason, plan.Event(in.Set.Namespace, in.Set.Name, plan.Note{Reason: found.Reason, Message: message,
		UID: in.Set.UID}))
}

// startRollback starts a rollback at the user's request. A refusal keeps the record of the operation that was to be rolled back.
func startRollback(in Input, operation string) plan.Plan {
	changes := resize.Rollback(in.Input, operation)
	switch found := rollbackObstacle(in, changes, operation); {
	case found != nil && found.PassesByItself():
		return waitForObstacle(in, *found)
	case found != nil:
		return refuseRollback(in, changes, *found)
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
// user no longer thinks of it. An operator might write the annotation again, so there it stays, and the record says that it is answered.
func refuseRollback(in Input, w *resize.Changes, found resize.Problem) plan.Plan {
	patch := plan.PatchOf(plan.StatefulSets, in.Set).Unannotate(api.RollbackAnnotation)
	if statefulset.Controller(in.Set) != nil {
		next := w.EmptyRecord(in.Input, api.Refused)
		next.Request, next.Reason, next.Message, next.Finished = "", found.Reason, found.Message, operation.Moment(in.Now)
		if record, _ := in.Record(); record != nil {
			next = record.Clone()
			resize.AnswerRollback(in.Set, next)
		}
		patch = operation.Store(in.Set, next)
	}
	return plan.Do(found.Reason, append(patch.Actions(), warn(in, "", found.Reason, "the rollback is refused: "+found.Message))...)
}

// handToPauseOwner hands the operation to pause-owner. backup and restore follow.
func handToPauseOwner(in Input, record *api.Resize) plan.Plan {
	next := operation.Enter(record, api.Planned, in.Now, in.Settings.PlanTimeout)
	patch := consumeRetry(in, operation.Store(in.Set, next))
	if next.IsRollback() {
		patch.Unannotate(api.RollbackAnnotation)
	}
	return plan.Do(next.Reason, append(patch.Actions(), operation.NoteOf(in.Set, next, false))...).
		Then(events.ResizeDetected, next.Operation)
}

// warn returns the action that creates a Warning Event on the set.
func warn(in Input, operation string, reason api.Reason, message string) plan.Action {
	return plan.Event(in.Set.Namespace, in.Set.Name,
		plan.Note{Warning: true, Reason: reason, Message: message, UID: in.Set.UID, Operation: operation})
}
