package detectresize

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/sts"
)

// Decide is pure. It begins an operation only when the preflight finds nothing against it. A refusal is written once, with a status and an
// Event that say why. It is judged anew each time, so that the request begins when its cause is gone.
func Decide(in Input) plan.Plan {
	if status := growing(in); status != nil {
		return expand(in, status)
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

// obstacle returns the first thing in the way of the resize, nil if there is none. What the API server says of the movers comes last:
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
			". Change what it names, or how movers run with the annotation " + api.MoverAnnotation}
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

// want says what is asked for and missing, or the plan when there is nothing.
func want(in Input) (*resize.Wish, plan.Plan) {
	wanted, reason, err := resize.Want(in.Input)
	switch {
	case wanted != nil:
		return wanted, plan.Plan{}
	case err != nil:
		return nil, plan.Do(reason, warn(in, "", reason, err.Error()))
	case reason == api.Retrying:
		return nil, takeUpAgain(in)
	case reason == api.UpToDate:
		return nil, plan.Do(reason, takeRetry(in, plan.PatchOf(plan.StatefulSets, in.Set)).Actions()...)
	}
	return nil, plan.Noop(reason)
}

// begin writes the intent down. Claims that can grow on their volumes are told to next; nothing else is touched before
// pause-owner has consented.
func begin(in Input, w *resize.Wish) plan.Plan {
	status := w.Operation(in.Input)
	status.Trace = in.Trace
	grown := 0
	for _, part := range status.Claims {
		if part.Method == api.MethodExpand {
			grown++
		}
	}
	status.Reason, status.Message = api.ResizeDetected, announcement(len(status.Claims)-grown, grown)
	if grown == 0 {
		return hand(in, status)
	}
	status.Phase, status.Deadline = api.Expanding, operation.Moment(in.Now.Add(in.Settings.ExpandTimeout))
	store := takeRetry(in, operation.Store(in.Set, status))
	return plan.Do(api.ResizeDetected, append(store.Actions(), operation.NoteOf(in.Set, status, false))...)
}

func announcement(copied, grown int) string {
	switch {
	case copied == 0 && grown == 0:
		return "the set is created again with its new templates"
	case grown == 0:
		return fmt.Sprintf("%d claims will be copied to new volumes", copied)
	case copied == 0:
		return fmt.Sprintf("%d claims will grow on their volumes", grown)
	}
	return fmt.Sprintf("%d claims will grow on their volumes, then %d will be copied to new ones", grown, copied)
}

// hand gives the operation to pause-owner, and from there to those who stop the set, or create it again.
func hand(in Input, status *api.Resize) plan.Plan {
	next := operation.Enter(status, api.Planned, in.Now, in.Settings.PlanTimeout)
	patch := takeRetry(in, plan.PatchOf(plan.StatefulSets, in.Set)).Unannotate(api.RollbackAnnotation)
	if found := sts.WhenScaled(in.Set); found != sts.Retain && !next.Live() {
		next.WhenScaled = found // or the scale to zero itself would delete the data
		patch.Replace(sts.WhenScaledPath, sts.Retain, "whenScaled Retain")
	}
	patch.Annotate(api.StatusAnnotation, next.Encode())
	return plan.Do(next.Reason, append(patch.Actions(), operation.NoteOf(in.Set, next, false))...).
		Then(events.ResizeDetected, next.Operation)
}

// refused writes the refusal down. One that stands for the same reason is only put into the words of now, without an Event.
func refused(in Input, w *resize.Wish, found resize.Problem) plan.Plan {
	if standing := in.Standing(); standing != nil && standing.Reason == found.Reason {
		if next := in.Restated(standing, found); next != nil {
			return plan.Do(found.Reason, operation.Store(in.Set, next).Actions()...)
		}
		return plan.Noop(api.AlreadyRefused)
	}
	status := w.Document(in.Input, api.Refused)
	status.Trace, status.Judged = in.Trace, resize.JudgedOn(in.Set)
	status.Reason, status.Message, status.Finished = found.Reason, found.Message, operation.Moment(in.Now)
	patch := takeRetry(in, plan.PatchOf(plan.StatefulSets, in.Set)).Annotate(api.StatusAnnotation, status.Encode())
	return plan.Do(found.Reason, append(patch.Actions(), warn(in, status.Operation, found.Reason, found.Message))...).
		Then(events.OperationFailed, status.Operation)
}

func warn(in Input, operation string, reason api.Reason, message string) plan.Action {
	return plan.Record(in.Set.Namespace, in.Set.Name,
		plan.Note{Warning: true, Reason: reason, Message: message, UID: in.Set.UID, Operation: operation})
}
