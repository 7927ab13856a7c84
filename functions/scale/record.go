package scale

import (
	"fmt"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

// newRecord returns the record of the next operation.
func (w work) newRecord(phase api.Phase, previous, target int32) *api.Scale {
	next := &api.Scale{
		Header: api.Header{Version: api.RecordVersion, Kind: api.KindScale, Phase: phase, Request: fmt.Sprint(target), Attempt: 1,
			Set: api.SetRef{Name: w.Set.Name, UID: w.Set.UID}, Started: *operation.Moment(w.Now), Trace: w.Trace},
		Scaler: api.ScalerRef{Name: w.scaler.Name, UID: w.scaler.UID}, Previous: previous, Target: target, Start: statefulset.Start(w.Set),
	}
	next.Adopts = w.acceptsOtherClients()
	next.Paused = target == 0 && w.held()
	if w.record != nil {
		next.Attempt, next.Reverts = w.record.Attempt+1, w.record.Reverts
		// A pause lasts until the count rises: a scale-up that fails before that has started no member, and zero members that are still
		// requested after the pause have not been drained.
		next.Paused = next.Paused || w.record.Paused && (target > previous || target == 0 && statefulset.Replicas(w.Set) == 0)
	}
	// If a user removes the record, attempts count from 1 again. The time then keeps the operation ids different.
	next.Operation = api.OperationID(w.Set.UID, fmt.Sprintf("%s to %d at %d", api.KindScale, target, next.Started.Unix()), next.Attempt)
	return next
}

// pausedCount returns the count before the stop that lasts, or 0.
func (w work) pausedCount() int32 {
	if !w.stop.Pending() {
		return 0
	}
	return w.stop.Replicas
}

// losesPausedMembers reports whether a change to the count would remove members that a pause or a sleep has stopped. The pre hook has not
// drained them, because it was told that they come back. So they start first, and the hook runs before they are removed. A set that stays
// at zero removes none: its record stays paused.
func (w work) losesPausedMembers(count int32) bool {
	pauseEnds := count > 0 || statefulset.Replicas(w.Set) > 0 && !w.held()
	return w.scaleHooks().hasPreHook() && pauseEnds && count < w.pausedCount()
}

// stoppedRecord returns the record of a scaling that fails now, without the hook onFailure. If that hook was running, the record keeps the
// phase that failed before it: a retry begins there, never with the hook onFailure.
func (w work) stoppedRecord(reason api.Reason, message string) *api.Scale {
	next := operation.Fail(w.record, api.Failed, w.Now, reason, message)
	if w.record.Phase == api.Failing {
		next.FailedAt = w.record.FailedAt
	}
	return next
}

// storeRecord writes the record to the set, then the notes (Kubernetes Events), then the Scalers' status. If a write fails, the later
// writes are skipped, and the next event repeats them.
func (w work) storeRecord(reason api.Reason, next *api.Scale, notes ...plan.Action) plan.Plan {
	actions := append(operation.Store(w.Set, next).Actions(), notes...)
	w.record = next
	return plan.Do(reason, append(actions, w.statuses(nil)...)...)
}

// endScaling stores a record in a terminal phase, and announces the end.
func (w work) endScaling(next *api.Scale) plan.Plan {
	next.HookRequests, next.CleansUp = nil, false
	p := w.storeRecord(next.Reason, next, w.eventFor(next, next.Phase == api.Failed))
	if next.Phase == api.Failed {
		return p.Then(events.OperationFailed, next.Operation).For(api.KindScale)
	}
	return p.Then(events.ScaleCompleted, next.Operation)
}

// eventFor returns the Kubernetes Event that reports the record's state.
func (w work) eventFor(next *api.Scale, warning bool) plan.Action {
	return operation.NoteOf(w.Set, next, warning)
}

// warn returns a Warning, a Kubernetes Event on the set.
func (w work) warn(reason api.Reason, message string, args ...any) plan.Action {
	note := plan.Note{Warning: true, Reason: reason, Message: fmt.Sprintf(message, args...), UID: w.Set.UID}
	if w.record != nil {
		note.Operation = w.record.Operation
	}
	return plan.Event(w.Namespace, w.Name, note)
}
