package idletimeout

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

// scale sets the replica count to zero or back. Without a Scaler it adds the count to the patch of the set. With a Scaler it returns
// a patch of the Scaler instead. With an unrecorded Scaler, a wake-up does both: scale-hooks does not scale the set during the sleep,
// and a pause that stays would scale the set to zero after it.
func (in Input) scale(patch *plan.Patch, m idle.Member, to int32) []plan.Action {
	if scaler := in.Scalers[m.Set.Name]; scaler != nil {
		return scaleScaler(scaler, to)
	}
	now := statefulset.Replicas(m.Set)
	plan.Set(patch, "/spec/replicas", now, to, fmt.Sprintf("replicas %d to %d", now, to))
	if scaler := in.Unrecorded[m.Set.Name]; scaler != nil && to > 0 {
		return scaleScaler(scaler, to)
	}
	return nil
}

// scaleScaler returns a patch of the Scaler: spec.paused, and spec.replicas if that is 0 at a wake-up.
func scaleScaler(scaler *v1alpha1.Scaler, to int32) []plan.Action {
	change := plan.PatchOf(plan.Scalers, scaler)
	if paused := to == 0; scaler.Spec.Paused != paused {
		change.Replace("/spec/paused", paused, fmt.Sprintf("paused = %t", paused))
	}
	if to > 0 && ptr.Deref(scaler.Spec.Replicas, 0) == 0 {
		change.Replace("/spec/replicas", to, fmt.Sprintf("replicas = %d", to))
	}
	return change.Actions()
}

// isScalerPaused reports whether the set has a paused Scaler.
func (in Input) isScalerPaused(m idle.Member) bool {
	scaler := in.Scalers[m.Set.Name]
	return scaler != nil && scaler.Spec.Paused || in.Unrecorded[m.Set.Name] != nil
}

// scalerStartsSet reports whether the set's Scaler starts members without another write.
func (in Input) scalerStartsSet(m idle.Member) bool {
	scaler := in.Scalers[m.Set.Name]
	return scaler != nil && !scaler.Spec.Paused && ptr.Deref(scaler.Spec.Replicas, 0) > 0
}

// scalingRuns reports whether a scaling by the set's Scaler is active, and its deadline or that of the wake-up has not passed. A scaling to
// zero that began before the wake-up may take longer than the wake-up. A scaling that waits for a cleanup does not count, because the
// cleanup waits for the end of the sleep.
func (in Input) scalingRuns(m idle.Member) bool {
	records := operation.Of(m.Set)
	if in.Scalers[m.Set.Name] == nil || !records.Scaling() || records.AwaitsCleanup() && statefulset.Replicas(m.Set) > 0 {
		return false
	}
	inTime := records.Scale != nil && records.Scale.Deadline != nil && !operation.Overdue(records.Scale, in.Now)
	return inTime || !operation.Overdue(m.Sleep, in.Now)
}

// hasLostScaler reports whether the set's Scaler was deleted before it started any members. scale-hooks then leaves the set at zero.
func (in Input) hasLostScaler(m idle.Member) bool {
	record := operation.Of(m.Set).Scale
	return record != nil && record.Paused && in.Scalers[m.Set.Name] == nil
}

// scalerFailedToStart reports whether the set's Scaler failed to start members in this wake-up.
func scalerFailedToStart(m idle.Member) bool {
	record := operation.Of(m.Set).Scale
	return record != nil && record.Phase == api.Failed && record.Target > 0 && !record.Started.Before(m.Sleep.WakeBegan())
}

// hookDeadlines returns the sum of the deadlines of the hooks pre and post, or 0 without a Scaler.
func (in Input) hookDeadlines(m idle.Member) time.Duration {
	scaler := in.Scalers[m.Set.Name]
	if scaler == nil {
		return 0
	}
	return scaler.Spec.Deadlines.Pre.Or(v1alpha1.DefaultHookDeadline) + scaler.Spec.Deadlines.Post.Or(v1alpha1.DefaultHookDeadline)
}

// replicasWriter names the client that last wrote the replicas.
func replicasWriter(set *appsv1.StatefulSet) string {
	if manager := statefulset.ReplicasManager(set); manager != "" {
		return fmt.Sprintf("field manager %q", manager)
	}
	return "another client"
}
