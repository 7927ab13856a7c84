package detectresize

import (
	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resize"
)

// takeRetry removes the retry annotation in the patch, unless it asks for a cleanup: then cleanup-pod removes it.
func takeRetry(in Input, patch *plan.Patch) *plan.Patch {
	if operation.Of(in.Set).RestingCleanup(in.Set) != nil {
		return patch
	}
	return patch.Unannotate(api.RetryAnnotation)
}

// waits tells the user why nothing happens yet; each tick tries again. A retry by an event is first stored as an annotation, for that tick.
func waits(in Input, found resize.Problem) plan.Plan {
	if in.Retry != nil && !operation.Of(in.Set).Retried(in.Set) {
		return plan.Do(found.Reason, plan.PatchOf(plan.StatefulSets, in.Set).Annotate(api.RetryAnnotation, "event").Actions()...)
	}
	message := "the resize waits: " + found.Message
	return plan.Do(found.Reason, plan.Record(in.Set.Namespace, in.Set.Name, plan.Note{Reason: found.Reason, Message: message,
		UID: in.Set.UID}))
}
