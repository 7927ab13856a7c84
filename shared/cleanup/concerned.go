package cleanup

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/members"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/statefulset"
)

// Concerned returns the functions that a change of the set concerns because of removed members. It returns none if all ordinals are
// accounted for.
func Concerned(c operation.Change) []api.Function {
	if concerned(c) {
		return []api.Function{api.CleanupPod}
	}
	return nil
}

func concerned(c operation.Change) bool {
	set, record := c.Set, c.Records.Cleanup
	switch {
	case c.Records.CleanupErr != nil:
		return true
	case set.DeletionTimestamp != nil && HasFinalizer(set):
		return !c.Gone && dueInDeletion(c, record)
	case c.Gone && operation.CleanupRests(record):
		return true // its ordinals would stay in the metrics of cleanup-pod
	case set.DeletionTimestamp != nil || c.Gone && statefulset.Managed(set):
		return record.Active()
	case HasFinalizer(set) != NeedsFinalizer(set):
		return true
	case !statefulset.Managed(set) || record.Active():
		return record.Active()
	case !statefulset.CleanupAsked(set) || c.Records.Busy(api.KindCleanup):
		return false
	}
	return unaccounted(set, record)
}

// deletedSetPeriod is the time between two checks of a deleted set that waits for its user. If its claims are gone, deleted by the
// user or with their namespace, the set is released. No event reports that, so the sweep looks.
const deletedSetPeriod = 15 * time.Minute

// dueInDeletion judges a set that Drydock's finalizer holds. After a failed cleanup, the user must decide first.
func dueInDeletion(c operation.Change, record *api.Cleanup) bool {
	set := c.Set
	if c.Swept && c.Due(string(set.UID), deletedSetPeriod) {
		return true
	}
	if record == nil || record.Phase != api.Failed || !set.DeletionTimestamp.Before(record.Finished) {
		return true
	}
	return operation.Aborted(set) || operation.CleanupRetried(set, record) || !NeedsFinalizer(set) || record.Request != Digest(set)
}

// RetriedByScaling reports whether a scaling waits for the cleanup and has begun after the cleanup failed: the user has retried the
// scaling.
func RetriedByScaling(records operation.Records) bool {
	return records.AwaitsCleanup() && operation.CleanupRests(records.Cleanup) && records.Cleanup.Finished.Before(&records.Scale.Started)
}

// unaccounted reports whether the set shows something that its record does not have yet: a changed template, a changed spec, or a new
// member.
func unaccounted(set *appsv1.StatefulSet, record *api.Cleanup) bool {
	switch {
	case record == nil || record.Request != Digest(set):
		return true
	case operation.CleanupRetried(set, record), RetriedByScaling(operation.Of(set)):
		return true
	case record.Phase == api.Refused:
		return false
	case record.Order != members.OrderNumber(set):
		return true
	case record.Span == nil || record.Span.Start != statefulset.Start(set):
		return true
	}
	return record.Span.Start+int(min(set.Status.Replicas, statefulset.Replicas(set))) > record.Span.End
}

// ConcernedByPod returns the functions that a cleanup pod concerns: it has ended, is being deleted, or has failed before.
func ConcernedByPod(pod *corev1.Pod, gone bool) []api.Function {
	statuses := slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
	failed := slices.ContainsFunc(statuses, func(c corev1.ContainerStatus) bool {
		ended := c.LastTerminationState.Terminated
		return c.RestartCount > 0 || ended != nil && ended.ExitCode != 0
	})
	if gone || pod.DeletionTimestamp != nil || statefulset.Done(pod) || failed {
		return []api.Function{api.CleanupPod}
	}
	return nil
}
