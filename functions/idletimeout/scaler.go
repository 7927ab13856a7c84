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
	"drydock.dev/shared/statefulset"
)

// isScalerPaused reports whether a user keeps the set at zero by its Scaler.
func (in Input) isScalerPaused(m idle.Member) bool {
	scaler := in.Scalers[m.Set.Name]
	return scaler != nil && scaler.Spec.Paused
}

// scalerStartsSet reports whether the set's Scaler starts members without another write of a user.
func (in Input) scalerStartsSet(m idle.Member) bool {
	scaler := in.Scalers[m.Set.Name]
	return scaler != nil && !scaler.Spec.Paused && ptr.Deref(scaler.Requested(), m.Sleep.Replicas) > 0
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

// failedStop returns the failed scaling that should have stopped the set for its present sleep, or nil.
func failedStop(m idle.Member) *api.Scale {
	record := operation.Of(m.Set).Scale
	if record != nil && record.Phase == api.Failed && record.Paused && record.Target == 0 && !record.Started.Before(&m.Sleep.Started) {
		return record
	}
	return nil
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

// replicasWriter names the client that last wrote the replicas. It is for people only.
func replicasWriter(set *appsv1.StatefulSet) string {
	if manager := statefulset.ReplicasManager(set); manager != "" {
		return fmt.Sprintf("field manager %q", manager)
	}
	return "another client"
}
