package sift

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/cleanup"
	"drydock.dev/shared/events"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/sts"
)

// concernsOfCleanup is about a set as cleanup-pod sees it. One whose ordinals are all accounted for wakes nobody.
func concernsOfCleanup(set *appsv1.StatefulSet, change string) []api.Function {
	if wantsCleanup(set, change) {
		return []api.Function{api.CleanupPod}
	}
	return nil
}

func wantsCleanup(set *appsv1.StatefulSet, change string) bool {
	doc, err := api.LoadCleanup(set)
	finalized, gone := cleanup.Finalized(set), change == events.SourceDelete
	switch {
	case err != nil:
		return true
	case set.DeletionTimestamp != nil && finalized:
		return !gone && dueInDeletion(set, doc)
	case set.DeletionTimestamp != nil || gone && sts.Managed(set):
		return doc.Active()
	case finalized != cleanup.Finalizes(set):
		return true
	case !sts.Managed(set) || doc.Active():
		return doc.Active()
	case !sts.CleanupAsked(set) || resizes(set) || sleeps(set):
		return false
	}
	return unaccounted(set, doc)
}

// dueInDeletion is about a set that our finalizer holds: a cleanup that has failed waits for somebody to say what now.
func dueInDeletion(set *appsv1.StatefulSet, doc *api.Cleanup) bool {
	if doc == nil || doc.Phase != api.Failed || !set.DeletionTimestamp.Before(doc.Finished) {
		return true
	}
	_, abort := set.Annotations[api.AbortAnnotation]
	return abort || asksRetry(set) || !cleanup.Finalizes(set) || doc.Request != cleanup.Digest(set)
}

func asksRetry(set *appsv1.StatefulSet) bool {
	_, asked := set.Annotations[api.RetryAnnotation]
	return asked
}

// unaccounted reports whether the set shows something that its document does not tell yet: a template or a spec that changed,
// or a replica that came.
func unaccounted(set *appsv1.StatefulSet, doc *api.Cleanup) bool {
	switch {
	case doc == nil || doc.Request != cleanup.Digest(set):
		return true
	case operation.CleanupRests(doc) && asksRetry(set):
		return true
	case doc.Phase == api.Refused:
		return false
	case doc.Span == nil || doc.Generation != set.Generation || doc.Span.Start != sts.Start(set):
		return true // a set that was scaled up and down again asks for as many replicas as before
	case slices.ContainsFunc(doc.Ordinals, func(o api.OrdinalStatus) bool { return o.Reason == api.ClaimUnbound }):
		return true // the claim may have been bound since, which no event tells
	}
	return doc.Span.Start+int(min(set.Status.Replicas, sts.Replicas(set))) > doc.Span.End
}

func resizes(set *appsv1.StatefulSet) bool {
	return operation.Of(set).Resizing()
}

// concernsOfCleaner is about a cleanup pod: one that has ended, is to end, or has failed before.
func concernsOfCleaner(pod *corev1.Pod, change string) []api.Function {
	failed := slices.ContainsFunc(append(slices.Clone(pod.Status.InitContainerStatuses), pod.Status.ContainerStatuses...), func(c corev1.ContainerStatus) bool {
		ended := c.LastTerminationState.Terminated
		return c.RestartCount > 0 || ended != nil && ended.ExitCode != 0
	})
	if change == events.SourceDelete || pod.DeletionTimestamp != nil || sts.Done(pod) || failed {
		return []api.Function{api.CleanupPod}
	}
	return nil
}
