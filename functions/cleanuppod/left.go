package cleanuppod

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/cleanup"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/statefulset"
)

// left are the ordinals to clean up, from the highest down: those that the set does not ask for, with claims that replicas
// have used, and those on which a cleanup pod works already.
func (in Input) left(doc *api.Cleanup, ordinals []cleanup.Ordinal) []cleanup.Ordinal {
	return slices.DeleteFunc(slices.Clone(ordinals), func(o cleanup.Ordinal) bool {
		switch {
		case in.tended(doc, o):
			return false
		case o.Wanted:
			return true
		case in.Set.DeletionTimestamp != nil && o.Pod != nil && statefulset.IsPodOf(o.Pod, in.Set):
			return false // of a set that is being deleted, replicas are stopped here
		}
		return len(o.Kept()) == 0 || o.Unknown(in.Set) != ""
	})
}

// due reports whether there is something to do for an ordinal now: its replica is gone, or is to be stopped here. While the
// StatefulSet controller stops replicas, no other operation has to wait for a cleanup.
func (in Input) due(left []cleanup.Ordinal) bool {
	return in.Set.DeletionTimestamp != nil && len(left) > 0 || slices.ContainsFunc(left, func(o cleanup.Ordinal) bool {
		return o.Pod == nil || !statefulset.IsPodOf(o.Pod, in.Set)
	})
}

// ending names a replica that the StatefulSet controller is about to stop; empty if there is none.
func (in Input) ending(ordinals []cleanup.Ordinal) string {
	for _, o := range ordinals {
		if in.Set.DeletionTimestamp == nil && !o.Wanted && o.Pod != nil && statefulset.IsPodOf(o.Pod, in.Set) {
			return o.Pod.Name
		}
	}
	return ""
}

// tended reports whether a pod of this cleanup is there.
func (in Input) tended(doc *api.Cleanup, o cleanup.Ordinal) bool {
	return o.Pod != nil && in.ours(doc, o.Pod)
}

// ours reports whether the pod was made by the set's present cleanup.
func (in Input) ours(doc *api.Cleanup, pod *corev1.Pod) bool {
	link := cleanup.LinkOf(pod, in.Name)
	return link != nil && doc.Active() && link.Operation == doc.Operation && link.Set.UID == in.Set.UID
}

// begins reports whether there is a reason to begin a cleanup: the last one has not failed, or something has changed since.
func (in Input) begins(doc *api.Cleanup) bool {
	switch {
	case !operation.CleanupRests(doc):
		return true
	case in.retried(doc), doc.Request != cleanup.Digest(in.Set), doc.Replicas != statefulset.Replicas(in.Set):
		return true
	}
	return in.Set.DeletionTimestamp != nil && !in.Set.DeletionTimestamp.Before(doc.Finished) // in whole seconds
}

// retried reports whether somebody asks to take up what has failed.
func (in Input) retried(doc *api.Cleanup) bool {
	_, annotated := in.Set.Annotations[api.RetryAnnotation]
	return (annotated || in.Retry) && operation.CleanupRests(doc)
}

func (in Input) aborted() bool {
	_, asked := in.Set.Annotations[api.AbortAnnotation]
	return asked
}

// mayBegin reports whether the event may be the beginning of a cleanup.
func (in Input) mayBegin() bool {
	if in.Set == nil || !statefulset.Managed(in.Set) || !statefulset.CleanupAsked(in.Set) {
		return false
	}
	doc, err := api.LoadCleanup(in.Set)
	return err == nil && !doc.Active() && in.due(in.left(doc, in.ordinals())) && in.begins(doc)
}

// Tally counts the ordinals that wait for a cleanup pod, and those that have one.
func (in Input) Tally() (pending, running int) {
	if in.Set == nil {
		return 0, 0
	}
	doc, err := api.LoadCleanup(in.Set)
	if err != nil || !statefulset.Managed(in.Set) || !statefulset.CleanupAsked(in.Set) || in.resizes() || in.sleeps() || operation.Of(in.Set).Scaling() {
		return 0, 0
	}
	for _, o := range in.left(doc, in.ordinals()) {
		if in.tended(doc, o) {
			running++
		} else {
			pending++
		}
	}
	return pending, running
}
