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

// scale adds the count to the patch of the set. If the set has a Scaler, it leaves the patch alone and returns the writes of the Scaler
// instead: spec.paused, and spec.replicas where that is 0 at a wake.
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

// stoppingByScaler waits until the Scaler has scaled the set to zero.
func stoppingByScaler(in Input, group idle.Group, m idle.Member) plan.Plan {
	record := operation.Of(m.Set).Scale
	switch {
	case !in.Scalers[m.Set.Name].Spec.Paused && m.Sleep.Round >= rounds:
		return giveUp(in, group, m, m.Sleep, api.StartedByOthers, fmt.Sprintf("another client has ended the pause of Scaler %s %d times",
			record.Scaler.Name, m.Sleep.Round))
	case !in.Scalers[m.Set.Name].Spec.Paused: // or its pause was never written
		return scaleDown(in, m, again(m.Sleep))
	case record.Phase == api.Failed:
		return giveUp(in, group, m, m.Sleep, record.Reason, fmt.Sprintf("the scaling to zero has failed: %s", record.Message))
	}
	return plan.Wait(api.ScalingDown, "Scaler %s stops it, %d replicas are left", record.Scaler.Name, m.Set.Status.Replicas)
}

// paused reports whether the set has a Scaler that is paused.
func (in Input) paused(m idle.Member) bool {
	scaler := in.Scalers[m.Set.Name]
	return scaler != nil && scaler.Spec.Paused
}

// resumes reports whether the set's Scaler wants members, so that it starts them without another write.
func (in Input) resumes(m idle.Member) bool {
	scaler := in.Scalers[m.Set.Name]
	return scaler != nil && !scaler.Spec.Paused && ptr.Deref(scaler.Spec.Replicas, 0) > 0
}

// hooksTake returns the deadlines of the hooks pre and post together; 0 without a Scaler.
func (in Input) hooksTake(m idle.Member) time.Duration {
	scaler := in.Scalers[m.Set.Name]
	if scaler == nil {
		return 0
	}
	return scaler.Spec.Deadlines.Pre.Or(v1alpha1.DefaultHookDeadline) + scaler.Spec.Deadlines.Post.Or(v1alpha1.DefaultHookDeadline)
}
