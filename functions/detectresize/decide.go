package detectresize

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resize"
)

// Decide is pure. It begins an operation only when the preflight finds nothing against it. A refusal is written once, with a status and an
// Event that say why. It is judged anew each time, so that the request begins when its cause is gone.
func Decide(in Input) plan.Plan {
	if record := growing(in); record != nil {
		return expand(in, record)
	}
	if operation := rollsBack(in); operation != "" {
		return rollback(in, operation)
	}
	wanted, otherwise := want(in)
	if wanted == nil {
		return otherwise
	}
	switch found := obstacle(in, wanted); {
	case found == nil:
		return begin(in, wanted)
	case found.Settles():
		return waits(in, *found)
	default:
		return refused(in, wanted, *found)
	}
}

// obstacle returns the first thing in the way of the resize, nil if there is none. The API server's trial of the movers comes last:
// it is asked only if nothing else is in the way.
func obstacle(in Input, w *resize.Wish) *resize.Problem {
	for _, find := range []func(resize.Input, *resize.Wish) []resize.Problem{
		func(_ resize.Input, w *resize.Wish) []resize.Problem { return w.Problems }, resize.Unsettled, resize.Preflight,
	} {
		if found := find(in.Input, w); len(found) > 0 {
			return &found[0]
		}
	}
	if in.Denied != "" {
		return &resize.Problem{Reason: api.Rejected, Message: "the API server would refuse the pods that copy the volumes: " + in.Denied +
			". Change that, or how movers run with the annotation " + api.MoverAnnotation}
	}
	if in.HookDenied != "" {
		return &resize.Problem{Reason: api.Rejected, Message: "the API server would refuse the pod of the annotation " + in.HookDenied +
			". Change that, or the annotation"}
	}
	return nil
}

// moverToTry returns the pod of a mover where the resize would begin and copy something, else nil.
func moverToTry(in Input) *corev1.Pod {
	if wanted, _ := want(in); wanted != nil && rollsBack(in) == "" && obstacle(in, wanted) == nil {
		return resize.MoverPod(in.Input, wanted)
	}
	return nil
}

// want returns the wish that the claims do not fulfil yet; if there is none, the plan for that.
func want(in Input) (*resize.Wish, plan.Plan) {
	wanted, reason, err := resize.Want(in.Input)
	switch {
	case wanted != nil:
		return wanted, plan.Plan{}
	case err != nil:
		return nil, plan.Do(reason, warn(in, "", reason, err.Error()))
	case reason == api.UpToDate:
		return nil, plan.Do(reason, takeRetry(in, plan.PatchOf(plan.StatefulSets, in.Set)).Actions()...)
	}
	return nil, plan.Noop(reason)
}

// begin stores the operation. Claims that can grow on their volumes are told to next; nothing else is touched before
// pause-owner has consented.
func begin(in Input, w *resize.Wish) plan.Plan {
	record := w.Operation(in.Input)
	record.Trace = in.Trace
	record.Reason, record.Message = api.ResizeDetected, announcement(record)
	if len(record.Expansions) == 0 {
		return hand(in, record)
	}
	record = operation.Enter(record, api.Expanding, in.Now, in.Settings.ExpandTimeout)
	store := takeRetry(in, operation.Store(in.Set, record))
	return plan.Do(api.ResizeDetected, append(store.Actions(), operation.NoteOf(in.Set, record, false))...)
}

func announcement(record *api.Resize) string {
	copied, grown := len(record.Moves()), len(record.Expansions)
	switch {
	case copied == 0 && grown == 0 && len(record.Fields) > 0:
		return "the set is created again around its pods with " + strings.Join(api.Words(record.Fields), ", ")
	case copied == 0 && grown == 0:
		return "the set is created again with its new templates"
	case grown == 0:
		return fmt.Sprintf("%d claims will be copied to new volumes", copied)
	case copied == 0:
		return fmt.Sprintf("%d claims will grow on their volumes", grown)
	}
	return fmt.Sprintf("%d claims will grow on their volumes, then %d will be copied to new ones", grown, copied)
}

// hand gives the operation to pause-owner; backup and restore follow.
func hand(in Input, record *api.Resize) plan.Plan {
	next := operation.Enter(record, api.Planned, in.Now, in.Settings.PlanTimeout)
	patch := takeRetry(in, operation.Store(in.Set, next)).Unannotate(api.RollbackAnnotation)
	return plan.Do(next.Reason, append(patch.Actions(), operation.NoteOf(in.Set, next, false))...).
		Then(events.ResizeDetected, next.Operation)
}

// refused stores the refusal. If the same reason stands already, only its message is updated, without an Event.
func refused(in Input, w *resize.Wish, found resize.Problem) plan.Plan {
	if standing := in.Standing(); standing != nil && standing.Reason == found.Reason {
		if next := in.Restated(standing, found); next != nil {
			return plan.Do(found.Reason, operation.Store(in.Set, next).Actions()...)
		}
		return plan.Noop(api.AlreadyRefused)
	}
	record := w.Document(in.Input, api.Refused)
	record.Trace, record.Judged = in.Trace, resize.JudgedOn(in.Set)
	record.Reason, record.Message, record.Finished = found.Reason, found.Message, operation.Moment(in.Now)
	patch := takeRetry(in, operation.Store(in.Set, record))
	return plan.Do(found.Reason, append(patch.Actions(), warn(in, record.Operation, found.Reason, found.Message))...).
		Then(events.OperationFailed, record.Operation)
}

func warn(in Input, operation string, reason api.Reason, message string) plan.Action {
	return plan.Record(in.Set.Namespace, in.Set.Name,
		plan.Note{Warning: true, Reason: reason, Message: message, UID: in.Set.UID, Operation: operation})
}
