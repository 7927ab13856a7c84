// Package scaling decides which Scaler scales a StatefulSet, and which changes concern scale.
package scaling

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/members"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/statefulset"
)

var functions = []api.Function{api.ScaleFunction}

// Concerned returns the functions that a change of the set concerns because of its count: the next step of a stop, its ledger, and its
// Scaler. Every change of a set with a Scaler does, because the Scaler's status has the number of members. The sweep compares the two
// instead, see ConcernedByScaler. A stopped set that has lost its opt-in label starts again, and the record of a deleted one is deleted.
func Concerned(c operation.Change) []api.Function {
	if c.Gone && api.LoadStop(c.Set) != nil {
		return functions
	}
	if !c.Gone && (members.Due(c.Set) || members.NextStopStep(c.Set, c.Now, c.Retry) != members.NoStep) {
		return functions
	}
	if c.Records.Scaling() || c.Records.Scale != nil && (!c.Swept || deviates(c)) || c.Records.Scale == nil && keptStopped(c.Set) {
		return functions
	}
	return nil
}

// keptStopped reports whether a Scaler has stopped the set. Without the record of a scaling, that Scaler may be gone.
func keptStopped(set *appsv1.StatefulSet) bool {
	stop := api.LoadStop(set)
	return stop.Pending() && stop.Kind == api.KindScale
}

// deviates reports whether a set without a scaling is being deleted, or has another count than its record. No event of its pods may report
// that, for example if a quota allows no more pods.
func deviates(c operation.Change) bool {
	replicas, record := c.Set.Spec.Replicas, c.Records.Scale
	return c.Set.DeletionTimestamp != nil || record.Phase == api.Succeeded && replicas != nil && *replicas != record.Target
}

// ConcernedByScaler judges a Scaler alone. It concerns scale if it is new, has changed, is scaling, is not healthy, has an
// autoscaler, or its user requests a retry. No event source watches autoscalers, so each sweep reports them. Asleep says that its set is
// held at zero for a sleep, so that it has no autoscaler.
func ConcernedByScaler(scaler *v1alpha1.Scaler, asleep, gone bool) []api.Function {
	if gone || Retried(scaler) || !atTarget(scaler, asleep) || HasAutoscaledCondition(scaler) || Autoscaled(scaler) && !asleep ||
		meta.IsStatusConditionFalse(scaler.Status.Conditions, v1alpha1.ConditionHealthy) {
		return functions
	}
	return nil
}

// atTarget reports whether the Scaler's set has the requested count according to the status. A request that came during a scaling is only
// in the spec.
func atTarget(scaler *v1alpha1.Scaler, asleep bool) bool {
	wanted, status := scaler.Spec.Replicas, scaler.Status
	if wanted != nil && (asleep || scaler.Spec.Paused) {
		wanted = new(int32)
	}
	if fixed := Fixed(scaler); fixed != nil && (scaler.Spec.Replicas == nil || *scaler.Spec.Replicas != *fixed) {
		return false
	}
	return status.ObservedGeneration == scaler.Generation && status.Stage == v1alpha1.StageIdle && wanted != nil && status.Desired != nil &&
		*wanted == *status.Desired
}

// ConcernedByJob returns the functions that a change of a scaling's hook concerns.
func ConcernedByJob(job *batchv1.Job, gone bool) []api.Function {
	if gone || statefulset.JobEnd(job).Type != "" {
		return functions
	}
	return nil
}

// Retried reports whether the Scaler's user requests a retry.
func Retried(scaler *v1alpha1.Scaler) bool {
	_, asked := scaler.Annotations[api.RetryAnnotation]
	return asked
}

// Owner returns the Scaler that scales the set, or nil: the Scaler in the set's record, or else the oldest one. A Scaler that is being
// deleted does not count.
func Owner(scalers []*v1alpha1.Scaler, record *api.Scale) *v1alpha1.Scaler {
	var owner *v1alpha1.Scaler
	for _, s := range scalers {
		switch {
		case s.DeletionTimestamp != nil:
		case record != nil && record.Scaler.UID == s.UID:
			return s
		case owner == nil || older(s, owner):
			owner = s
		}
	}
	return owner
}

func older(a, b *v1alpha1.Scaler) bool {
	if a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.UID < b.UID
	}
	return a.CreationTimestamp.Before(&b.CreationTimestamp)
}

// Fixed returns the count of the mode fixed, or nil.
func Fixed(scaler *v1alpha1.Scaler) *int32 {
	if scaler.Spec.Mode == nil {
		return nil
	}
	return scaler.Spec.Mode.Fixed
}

// Autoscaled reports whether the Scaler needs an autoscaler. A paused Scaler needs none, because its count must not change.
func Autoscaled(scaler *v1alpha1.Scaler) bool {
	mode := scaler.Spec.Mode
	return mode != nil && (mode.HPA != nil || mode.Auto != nil) && !scaler.Spec.Paused && scaler.DeletionTimestamp == nil
}

// HasAutoscaledCondition reports whether the Scaler has the condition Autoscaled, so that it may have an autoscaler.
func HasAutoscaledCondition(scaler *v1alpha1.Scaler) bool {
	return meta.FindStatusCondition(scaler.Status.Conditions, v1alpha1.ConditionAutoscaled) != nil
}
