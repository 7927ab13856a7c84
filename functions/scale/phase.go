package scale

import (
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/operation"
)

// enterPhase returns the record in the phase, with that phase's deadline.
func (w work) enterPhase(record *api.Scale, phase api.Phase) *api.Scale {
	next := operation.Enter(record, phase, w.Now, w.deadline(phase))
	next.HookRequests = nil
	post := w.hook(postHook)
	next.CleansUp = phase == api.PostScaling && post != nil && post.Cleanup != nil && !next.Paused // a pause keeps the claims
	return next
}

// deadline returns the duration that the phase may take.
func (w work) deadline(phase api.Phase) time.Duration {
	d := w.scaler.Spec.Deadlines
	switch phase {
	case api.PreScaling:
		return d.Pre.Or(v1alpha1.DefaultHookDeadline)
	case api.Scaling:
		return d.Scaling.Or(v1alpha1.DefaultScalingDeadline)
	case api.PostScaling:
		return d.Post.Or(v1alpha1.DefaultHookDeadline)
	}
	return d.OnFailure.Or(v1alpha1.DefaultHookDeadline)
}

// timeLeft returns the time until the deadline of the current phase. It is negative after the deadline.
func (w work) timeLeft() time.Duration {
	if w.record.Deadline == nil {
		return w.deadline(w.record.Phase)
	}
	return w.record.Deadline.Sub(w.Now)
}
