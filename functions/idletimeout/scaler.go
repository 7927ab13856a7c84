package idletimeout

import (
	"fmt"
	"time"

	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

// scale sets the replica count to zero or back. Without a Scaler it adds the count to the patch of the set. With a Scaler it returns
// a patch of the Scaler instead: spec.paused, and spec.replicas if that is 0 at a wake-up.
func (in Input) scale(patch *plan.Patch, m idle.Member, to int32) []plan.Action {
	scaler := in.Scalers[m.Set.Name]
	if scaler == nil {
		now := statefulset.Replicas(m.Set)
		plan.Set(patch, "/spec/replicas", now, to, fmt.Sprintf("replicas %d to %d", now, to))
		return nil
	}
	change := plan.PatchOf(plan.Scalers, scaler)
	if paused := to == 0; scaler.Spec.Paused != paused {
		change.Replace("/spec/paused", paused, fmt.Sprintf("paused = %t", paused))
	}
	if to > 0 && ptr.Deref(scaler.Spec.Replicas, 0) == 0 {
		change.Replace("/spec/replicas", to, fmt.Sprintf("replicas = %d", to))
	}
	return change.Actions()
}

// handleStoppingByScaler waits until the Scaler has scaled the set to zero.
func handleStoppingByScaler(in Input, group idle.Group, m idle.Member) plan.Plan {
	record := operation.Of(m.Set).Scale
	switch {
	case !in.Scalers[m.Set.Name].Spec.Paused && m.Sleep.Round >= maxRounds:
		return failSleep(in, group, m, m.Sleep, api.StartedByOthers, fmt.Sprintf("another client ended the pause of Scaler %s %d times",
			record.Scaler.Name, m.Sleep.Round))
	case !in.Scalers[m.Set.Name].Spec.Paused: // another client ended the pause, or it was never written
		return scaleDown(in, m, nextRound(m.Sleep))
	case record.Phase == api.Failed:
		return failSleep(in, group, m, m.Sleep, record.Reason, fmt.Sprintf("the scale-down to zero failed: %s", record.Message))
	}
	return plan.Wait(api.ScalingDown, "Scaler %s scales it to zero, %d replicas are left", record.Scaler.Name, m.Set.Status.Replicas)
}

// isScalerPaused reports whether the set has a paused Scaler.
func (in Input) isScalerPaused(m idle.Member) bool {
	scaler := in.Scalers[m.Set.Name]
	return scaler != nil && scaler.Spec.Paused
}

// scalerStartsSet reports whether the set's Scaler starts members without another write.
func (in Input) scalerStartsSet(m idle.Member) bool {
	scaler := in.Scalers[m.Set.Name]
	return scaler != nil && !scaler.Spec.Paused && ptr.Deref(scaler.Spec.Replicas, 0) > 0
}

// hookDeadlines returns the sum of the deadlines of the hooks pre and post, or 0 without a Scaler.
func (in Input) hookDeadlines(m idle.Member) time.Duration {
	scaler := in.Scalers[m.Set.Name]
	if scaler == nil {
		return 0
	}
	return scaler.Spec.Deadlines.Pre.Or(v1alpha1.DefaultHookDeadline) + scaler.Spec.Deadlines.Post.Or(v1alpha1.DefaultHookDeadline)
}
