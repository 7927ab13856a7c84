package detectresize

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/sts"
)

// Retry is what a retry event asks for: to take up again what failed or was refused.
type Retry struct {
	// Of is the operation that was seen to have ended so; empty means whichever did.
	Of string
}

// concerns reports whether there is something to take up again. A retry that names its operation does nothing when it
// comes again or late: what has failed by then is another operation.
func (r *Retry) concerns(status *api.Status) bool {
	return status != nil && (status.Phase == api.Failed || status.Phase == api.Refused) && (r.Of == "" || r.Of == status.Operation)
}

// annotated reports whether the set itself asks for a retry.
func annotated(in Input) bool {
	return sts.Retried(in.Set)
}

// takeUpAgain continues an operation that was given up in the middle of the switch.
func takeUpAgain(in Input, held *api.Status) plan.Plan {
	status := held.Clone()
	deadline := metav1.NewTime(in.Now.Add(in.Settings.SwitchTimeout))
	status.Phase, status.FailedAt, status.Finished, status.Deadline = api.Switching, "", nil, &deadline
	status.Reason, status.Message = api.Retrying, "the switch is taken up again"
	patch := plan.PatchOf(plan.StatefulSets, in.Set).
		Unannotate(api.RetryAnnotation).Annotate(api.StatusAnnotation, status.Encode())
	return plan.Do(api.Retrying, patch.Actions()...).Then(events.BackupCompleted, status.Operation)
}

// waits tells people why nothing happens yet; each tick looks again. A retry that only an event asks for is written down
// first, for that tick.
func waits(in Input, reason api.Reason, format string, args ...any) plan.Plan {
	if in.Retry != nil && !annotated(in) {
		return plan.Do(reason, plan.PatchOf(plan.StatefulSets, in.Set).Annotate(api.RetryAnnotation, "event").Actions()...)
	}
	message := "the resize waits: " + fmt.Sprintf(format, args...)
	return plan.Do(reason, plan.Record(in.Set.Namespace, in.Set.Name, plan.Note{Reason: reason, Message: message, UID: in.Set.UID}))
}
