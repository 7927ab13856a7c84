package detectresize

import (
	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resize"
)

// takeUpAgain continues an operation that was given up in the middle of the switch.
func takeUpAgain(in Input) plan.Plan {
	held, err := in.Status()
	if err != nil || held == nil {
		return plan.Noop(api.StatusInvalid) // it was read before
	}
	status := held.Clone()
	status.Phase, status.FailedAt, status.Finished, status.Deadline = api.Switching, "", nil, operation.Moment(in.Now.Add(in.Settings.SwitchTimeout))
	status.Reason, status.Message = api.Retrying, "the switch is taken up again"
	if status.IsRollback() { // nothing is named by its rounds, and people may try as often as they like
		status.Round = 1
	}
	patch := plan.PatchOf(plan.StatefulSets, in.Set).
		Unannotate(api.RetryAnnotation).Annotate(api.StatusAnnotation, status.Encode())
	return plan.Do(api.Retrying, patch.Actions()...).Then(events.BackupCompleted, status.Operation)
}

// takeRetry removes the retry annotation in the patch. One that is about a cleanup is cleanup-pod's to remove.
func takeRetry(in Input, patch *plan.Patch) *plan.Patch {
	if operation.Of(in.Set).RestingCleanup(in.Set) != nil {
		return patch
	}
	return patch.Unannotate(api.RetryAnnotation)
}

// waits tells people why nothing happens yet; each tick looks again. A retry that only an event asks for is written down
// first, for that tick.
func waits(in Input, found resize.Problem) plan.Plan {
	if in.Retry != nil && !operation.Of(in.Set).Retried(in.Set) {
		return plan.Do(found.Reason, plan.PatchOf(plan.StatefulSets, in.Set).Annotate(api.RetryAnnotation, "event").Actions()...)
	}
	message := "the resize waits: " + found.Message
	return plan.Do(found.Reason, plan.Record(in.Set.Namespace, in.Set.Name, plan.Note{Reason: found.Reason, Message: message, UID: in.Set.UID}))
}
