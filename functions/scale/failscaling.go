package scale

import (
	"fmt"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/text"
)

// failScaling ends the scaling in its current phase. If the Scaler has a hook onFailure, the hook runs before the scaling ends.
func (w work) failScaling(reason api.Reason, message string) plan.Plan {
	if w.record.Phase == api.Failing {
		return w.finishFailed()
	}
	message = fmt.Sprintf("%s. When the cause is removed, retry: kubectl annotate -n %s scaler %s %s=", text.Clip(message, maxQuote),
		w.Namespace, w.scaler.Name, api.RetryAnnotation)
	if w.scaler.Spec.Hooks.OnFailure == nil {
		return w.endScaling(operation.Fail(w.record, api.Failed, w.Now, reason, message))
	}
	next := w.enterPhase(w.record, api.Failing)
	next.FailedAt, next.Reason, next.Message = w.record.Phase, reason, message
	return w.storeRecord(reason, next)
}

func (w work) finishFailed() plan.Plan {
	next := operation.Conclude(w.record, api.Failed, w.Now, w.record.Reason, w.record.Message)
	return w.endScaling(next)
}
