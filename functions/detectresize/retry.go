package detectresize

import (
	"fmt"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resize"
)

// consumeRetry adds the removal of the retry annotation to the patch. If the retry is for a cleanup, the annotation stays for cleanup-pod.
func consumeRetry(in Input, patch *plan.Patch) *plan.Patch {
	if operation.Of(in.Set).CleanupAwaitingRetry(in.Set) != nil {
		return patch
	}
	return patch.Unannotate(api.RetryAnnotation)
}

// removeNeedlessRetry removes a retry annotation that repeats nothing, and says in an Event where it belongs. It must not stay: the next
// failure would be retried at once.
func removeNeedlessRetry(in Input, reason api.Reason) plan.Plan {
	patch := consumeRetry(in, plan.PatchOf(plan.StatefulSets, in.Set))
	if patch.Empty() {
		return plan.Noop(reason)
	}
	why := fmt.Sprintf("StatefulSet %s has no resize request, and no sleep or cleanup that failed or was refused", in.Set.Name)
	if reason == api.UpToDate {
		why = fmt.Sprintf("the volumes of StatefulSet %s are as requested", in.Set.Name)
	}
	message := fmt.Sprintf("annotation %s had no effect and was removed: %s%s", api.RetryAnnotation, why,
		operation.RetriedOtherwise(in.Set, operation.Of(in.Set)))
	return plan.Do(reason, append(patch.Actions(), warn(in, "", api.NothingFailed, message))...)
}

// waitForObstacle reports in an Event why the resize does not start yet. Each tick tries again. A retry that came as an event is first
// stored as an annotation, so that the next tick finds it.
func waitForObstacle(in Input, found resize.Problem) plan.Plan {
	if in.Retry != nil && !operation.Of(in.Set).Retried(in.Set) {
		return plan.Do(found.Reason, plan.PatchOf(plan.StatefulSets, in.Set).Annotate(api.RetryAnnotation, "event").Actions()...)
	}
	message := "the resize waits: " + found.Message
	return plan.Do(found.Reason, plan.Event(in.Set.Namespace, in.Set.Name, plan.Note{Reason: found.Reason, Message: message,
		UID: in.Set.UID}))
}
