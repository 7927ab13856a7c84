// Package scale judges which Scaler scales a StatefulSet, and which changes concern the function that does so.
package scale

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/operation"
)

var scaleHooks = []api.Function{api.ScaleHooks}

// Concerned returns the functions that a change of the set concerns as far as Scalers go: every change of a set that one scales, since the
// Scaler's status tells how many members there are. The sweep compares the two instead, see ConcernedByScaler.
func Concerned(c operation.Change) []api.Function {
	if c.Records.Scaling() || c.Records.Scale != nil && (!c.Swept || strays(c)) {
		return scaleHooks
	}
	return nil
}

// strays reports whether a set without a scaling is being deleted, or has another count than the record. Its pods may not tell, for example
// when a quota allows no more of them.
func strays(c operation.Change) bool {
	replicas, record := c.Set.Spec.Replicas, c.Records.Scale
	return c.Set.DeletionTimestamp != nil || record.Phase == api.Succeeded && replicas != nil && *replicas != record.Target
}

// ConcernedByScaler judges a Scaler alone: it is new, has changed, scales, is not healthy, has an autoscaler, or its user asks for a retry. No
// source watches autoscalers, so each sweep looks after them.
func ConcernedByScaler(scaler *v1alpha1.Scaler, gone bool) []api.Function {
	if gone || Retried(scaler) || !settled(scaler) || meta.IsStatusConditionFalse(scaler.Status.Conditions, v1alpha1.ConditionHealthy) ||
		Autoscaled(scaler) || TellsAutoscaler(scaler) {
		return scaleHooks
	}
	return nil
}

// settled reports whether the Scaler's set has the count that is wanted, as far as its status tells. A wish that came during a scaling is in
// its spec only.
func settled(scaler *v1alpha1.Scaler) bool {
	wanted, status := scaler.Wanted(), scaler.Status
	if fixed := Fixed(scaler); fixed != nil && (scaler.Spec.Replicas == nil || *scaler.Spec.Replicas != *fixed) {
		return false
	}
	return status.ObservedGeneration == scaler.Generation && status.Stage == v1alpha1.StageIdle && wanted != nil && status.Desired != nil &&
		*wanted == *status.Desired
}

// ConcernedByJob returns the functions that a change of a hook of a scaling concerns.
func ConcernedByJob(job *batchv1.Job, gone bool) []api.Function {
	if gone || Ended(job, batchv1.JobComplete) != nil || Ended(job, batchv1.JobFailed) != nil {
		return scaleHooks
	}
	return nil
}

// Ended returns the condition that the Job has come to this end; nil if it has not. Counts of pods do not tell: a Job may
// continue after a failed pod.
func Ended(job *batchv1.Job, how batchv1.JobConditionType) *batchv1.JobCondition {
	for i, c := range job.Status.Conditions {
		if c.Type == how && c.Status == corev1.ConditionTrue {
			return &job.Status.Conditions[i]
		}
	}
	return nil
}

// Retried reports whether the Scaler's user asks for a retry.
func Retried(scaler *v1alpha1.Scaler) bool {
	_, asked := scaler.Annotations[api.RetryAnnotation]
	return asked
}

// Owner returns the Scaler that scales the set: the one of the set's record, or else the oldest. It returns nil if there is none. A Scaler
// that is being deleted counts no more.
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

// Autoscaled reports whether the Scaler asks for an autoscaler. A paused one does not: the count that comes back has to stay.
func Autoscaled(scaler *v1alpha1.Scaler) bool {
	mode := scaler.Spec.Mode
	return mode != nil && (mode.HPA != nil || mode.Auto != nil) && !scaler.Spec.Paused && scaler.DeletionTimestamp == nil
}

// TellsAutoscaler reports whether the Scaler has the condition Autoscaled, so that it may have an autoscaler.
func TellsAutoscaler(scaler *v1alpha1.Scaler) bool {
	return meta.FindStatusCondition(scaler.Status.Conditions, v1alpha1.ConditionAutoscaled) != nil
}
