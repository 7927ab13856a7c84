package cleanuppod

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/cleanup"
	"drydock.dev/shared/members"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/statefulset"
)

// leftBehind returns the ordinals to clean up, the highest first: ordinals above the replica count whose claims were used, and
// ordinals with a running cleanup pod.
func (in Input) leftBehind(record *api.Cleanup, ordinals []cleanup.Ordinal) []cleanup.Ordinal {
	return slices.DeleteFunc(slices.Clone(ordinals), func(o cleanup.Ordinal) bool {
		switch {
		case in.hasCleanupPod(record, o):
			return false
		case o.Wanted || !members.Removes(in.Set, o.Number):
			return true
		case in.Set.DeletionTimestamp != nil && o.Pod != nil && statefulset.IsPodOf(o.Pod, in.Set):
			return false // cleanup-pod itself stops the replicas of a set that is being deleted
		}
		return len(o.Kept()) == 0 || o.Unknown(in.Set) != ""
	})
}

// hasWork reports whether an ordinal can be cleaned up now: its replica is gone, or cleanup-pod has to stop it. While the
// StatefulSet controller stops replicas there is no work, so other operations need not wait for a cleanup.
func (in Input) hasWork(left []cleanup.Ordinal) bool {
	return in.Set.DeletionTimestamp != nil && len(left) > 0 || slices.ContainsFunc(left, func(o cleanup.Ordinal) bool {
		return o.Pod == nil || !statefulset.IsPodOf(o.Pod, in.Set)
	})
}

// replicaToStop returns the name of a replica that the StatefulSet controller has to stop, or "".
func (in Input) replicaToStop(ordinals []cleanup.Ordinal) string {
	for _, o := range ordinals {
		if in.Set.DeletionTimestamp == nil && !o.Wanted && o.Pod != nil && statefulset.IsPodOf(o.Pod, in.Set) {
			return o.Pod.Name
		}
	}
	return ""
}

// hasCleanupPod reports whether the ordinal has a pod of this cleanup.
func (in Input) hasCleanupPod(record *api.Cleanup, o cleanup.Ordinal) bool {
	return o.Pod != nil && in.isOurs(record, o.Pod)
}

// isOurs reports whether the set's running cleanup created the pod.
func (in Input) isOurs(record *api.Cleanup, pod *corev1.Pod) bool {
	link := cleanup.LinkOf(pod, in.Name)
	return link != nil && record.Active() && link.Operation == record.Operation && link.Set.UID == in.Set.UID
}

// isOrdered reports whether the ledger orders the removal of the cleanup pod's ordinal. While the ledger is outdated, nothing is known.
func (in Input) isOrdered(pod *corev1.Pod) bool {
	ordinal, named := statefulset.ParsePodName(in.Set, pod.Name)
	return named && (members.Removes(in.Set, ordinal) || in.Set.DeletionTimestamp == nil && !members.Current(in.Set))
}

// startsAgain reports whether a cleanup may start: the last one did not fail, or the set, its template or a retry request changed
// since.
func (in Input) startsAgain(record *api.Cleanup) bool {
	switch {
	case !operation.CleanupRests(record):
		return true
	case in.isRetried(record), cleanup.RetriedByScaling(operation.Of(in.Set)):
		return true
	case record.Request != cleanup.Digest(in.Set), record.Order != members.Ordered(in.Set):
		return true
	}
	return in.Set.DeletionTimestamp != nil && !in.Set.DeletionTimestamp.Before(record.Finished) // times have whole seconds
}

// mayStart reports whether the event may start a cleanup.
func (in Input) mayStart() bool {
	if in.Set == nil || !statefulset.Managed(in.Set) || !statefulset.CleanupAsked(in.Set) {
		return false
	}
	record, err := api.LoadCleanup(in.Set)
	return err == nil && !record.Active() && in.hasWork(in.leftBehind(record, in.ordinals())) && in.startsAgain(record)
}

// Tally returns the number of ordinals that wait for a cleanup pod, and the number of ordinals with one.
func (in Input) Tally() (pending, running int) {
	if in.Set == nil {
		return 0, 0
	}
	record, err := api.LoadCleanup(in.Set)
	if err != nil || !statefulset.Managed(in.Set) || !statefulset.CleanupAsked(in.Set) ||
		operation.Of(in.Set).Busy(api.KindCleanup) {
		return 0, 0
	}
	for _, o := range in.leftBehind(record, in.ordinals()) {
		if in.hasCleanupPod(record, o) {
			running++
		} else {
			pending++
		}
	}
	return pending, running
}
