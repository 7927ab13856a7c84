package detectresize

import (
	"fmt"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/statefulset"
)

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
