package pauseowner

import (
	"fmt"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/sts"
)

// Input is what Decide decides on; only the set itself is read.
type Input struct {
	*sts.Observed
	Settings api.Settings
}

// Decide is pure.
func Decide(in Input) plan.Plan {
	if in.Set == nil || in.Set.DeletionTimestamp != nil {
		return plan.Noop(api.SetGone)
	}
	status, err := in.Status()
	if err != nil {
		return plan.Noop(api.StatusInvalid) // detect-resize says so on the set
	}
	if status == nil || status.Phase != api.Planned {
		return plan.Noop(api.NotOurPhase)
	}
	owner := sts.Controller(in.Set)
	ignore := api.OwnerPolicy(in.Set.Annotations[api.OwnerPolicyAnnotation]) == api.OwnerIgnore
	_, abort := in.Set.Annotations[api.AbortAnnotation]
	switch {
	case abort:
		return rollBack(in, status, api.Aborted, "aborted before anything was touched")
	case plan.Overdue(status, in.Now):
		return rollBack(in, status, api.DeadlineExceeded, "the owner's consent took too long; ask again with the annotation "+api.RetryAnnotation)
	case owner != nil && !ignore:
		return rollBack(in, status, api.OwnerNotPausable, fmt.Sprintf("%s %s controls the set and cannot be paused by this version; "+
			"pause it yourself, then set the annotation %s=%s and ask again with %s", owner.Kind, owner.Name,
			api.OwnerPolicyAnnotation, api.OwnerIgnore, api.RetryAnnotation))
	}
	next := plan.Enter(status, api.Copying, in.Now, in.Settings.CopyTimeout)
	next.Reason, next.Message = api.OwnerConsents, "the targets are prepared"
	return plan.Do(api.OwnerConsents, plan.Store(in.Set, next).Actions()...).Then(events.OwnerPaused, status.Operation)
}

func rollBack(in Input, status *api.Status, reason api.Reason, message string) plan.Plan {
	next := plan.RollBack(status, in.Now, in.Settings.SwitchTimeout, reason, message)
	return plan.Do(reason, plan.Store(in.Set, next).Unannotate(api.AbortAnnotation).Actions()...)
}
