package cleanuppod

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/cleanup"
	"drydock.dev/shared/events"
	"drydock.dev/shared/members"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

// orphanFinalizer stays on a deleted object until the garbage collector has orphaned its dependents.
const orphanFinalizer = metav1.FinalizerOrphanDependents

// removePod removes a cleanup pod and keeps its claims.
func removePod(pod *corev1.Pod) plan.Plan {
	switch {
	case pod.DeletionTimestamp == nil:
		return plan.Do(api.CleanupCanceled, plan.Delete(plan.Pods, pod))
	case slices.Contains(pod.Finalizers, api.CleanupFinalizer):
		return plan.Do(api.CleaningUp, plan.PatchOf(plan.Pods, pod).RemoveFinalizer(api.CleanupFinalizer).Actions()...)
	case pod.Status.Phase == corev1.PodSucceeded:
		return plan.WaitSoon(api.CleaningUp, "pod %s is being deleted", pod.Name)
	}
	return plan.Wait(api.CleaningUp, "pod %s is terminating", pod.Name)
}

// removePods returns the next step to remove the cleanup pods that match.
func (in Input) removePods(match func(*corev1.Pod) bool) plan.Plan {
	wait := plan.Noop(api.NothingToClean)
	for _, pod := range in.Pods {
		if cleanup.LinkOf(pod, in.Name) == nil || !match(pod) {
			continue
		}
		switch p := removePod(pod); p.Kind {
		case plan.KindDo:
			return p
		default:
			wait = p
		}
	}
	return wait
}

// removeAllPods removes every cleanup pod of a set that is gone. The claims are kept, because the request for their cleanup is gone with
// the set.
func (in Input) removeAllPods() plan.Plan {
	p := in.removePods(func(*corev1.Pod) bool { return true })
	if p.Kind == plan.KindNoop {
		return plan.Noop(api.SetGone)
	}
	return p
}

// removeStrayPods removes cleanup pods that do not belong to the running cleanup of this set. They come from another set of the same
// name, from a finished cleanup, or from a request that has arrived after a scale-up. Their result may not apply to this set, so their
// claims are kept.
func (in Input) removeStrayPods(record *api.Cleanup) plan.Plan {
	return in.removePods(func(pod *corev1.Pod) bool { return !in.isOurs(record, pod) || !in.isOrdered(pod) })
}

// cancel ends a running cleanup: it removes the pods and keeps the claims. The record of a set that is not opted in is written first,
// because the tick does not find the set after its pods are gone.
func (in Input) cancel(record *api.Cleanup, reason api.Reason, message string) plan.Plan {
	if !record.Active() {
		return plan.Noop(reason)
	}
	next := in.canceledRecord(record, reason, message)
	p := plan.Do(reason, append(in.store(next).Unannotate(api.AbortAnnotation).Actions(), operation.NoteOf(in.Set, next, true))...)
	if !statefulset.Managed(in.Set) {
		return p
	}
	if wait := in.removePods(func(*corev1.Pod) bool { return true }); wait.Kind != plan.KindNoop {
		return wait
	}
	return p.Then(events.OperationFailed, record.Operation).For(api.KindCleanup)
}

// canceledRecord returns the record of a canceled cleanup.
func (in Input) canceledRecord(record *api.Cleanup, reason api.Reason, message string) *api.Cleanup {
	next := operation.Fail(record, api.Failed, in.Now, reason, message+"; the remaining claims are kept")
	next.Ordinals = nil
	next.Request, next.Order = cleanup.Digest(in.Set), members.OrderNumber(in.Set)
	return next
}

// releaseReason returns why a set that is being deleted is not cleaned up, or "" if it is.
func (in Input) releaseReason(record *api.Cleanup) string {
	switch {
	case members.IsMade(in.Set):
		return "its operator may create it again"
	case !cleanup.NeedsFinalizer(in.Set):
		return "it no longer requests a cleanup on deletion"
	case in.isOrphanDeletion():
		return "it was deleted with orphan propagation"
	case in.NamespaceEnds:
		return "its namespace is being deleted, so no pod can be created"
	case in.Journal || operation.Of(in.Set).Resizing():
		return "a resize was in progress"
	case in.isAborted():
		return "aborted at the user's request"
	case !statefulset.CleanupAsked(in.Set):
		return "it has no cleanup pod template"
	}
	if _, problem := in.template(record); problem != nil {
		return problem.Message
	}
	return ""
}

// isOrphanDeletion reports whether the set was deleted with orphan propagation. Until the garbage collector has orphaned the
// dependents, the set's finalizer shows it. Afterwards the set's ControllerRevision or a pod shows it, because the set no longer
// controls them.
func (in Input) isOrphanDeletion() bool {
	return slices.Contains(in.Set.Finalizers, orphanFinalizer) || in.Revision != nil && !metav1.IsControlledBy(in.Revision, in.Set) ||
		slices.ContainsFunc(in.Pods, in.isOrphaned)
}

// isOrphaned reports whether the pod is a replica without a controller.
func (in Input) isOrphaned(pod *corev1.Pod) bool {
	_, replica := statefulset.ParsePodName(in.Set, pod.Name)
	return replica && metav1.GetControllerOf(pod) == nil && statefulset.Selects(in.Set, pod.Labels)
}

// releaseSet removes our finalizer from a set that is being deleted. The claims are kept.
func (in Input) releaseSet(record *api.Cleanup, why string) plan.Plan {
	if p := in.removePods(func(*corev1.Pod) bool { return true }); p.Kind != plan.KindNoop {
		return p
	}
	patch, operation := plan.PatchOf(plan.StatefulSets, in.Set), ""
	if record != nil {
		operation = record.Operation
	}
	note := plan.Event(in.Set.Namespace, in.Set.Name, plan.Note{Warning: true, Reason: api.FinalizerRemoved,
		Message: "the StatefulSet is deleted without a cleanup: " + why + "; its claims are kept", UID: in.Set.UID, Operation: operation})
	if !record.Active() {
		return plan.Do(api.FinalizerRemoved, append(removeFinalizer(patch).Actions(), note)...)
	}
	patch.Annotate(api.CleanupAnnotation, in.canceledRecord(record, api.CleanupCanceled, why).Encode())
	return plan.Do(api.FinalizerRemoved, append(removeFinalizer(patch).Actions(), note)...).
		Then(events.OperationFailed, operation).For(api.KindCleanup)
}

// reconcileFinalizer adds or removes our finalizer, as the set's annotations request. A finalizer cannot be added during deletion.
func (in Input) reconcileFinalizer() plan.Plan {
	present, wanted := cleanup.HasFinalizer(in.Set), cleanup.NeedsFinalizer(in.Set)
	switch {
	case in.Set.DeletionTimestamp != nil || present == wanted || wanted && in.isBeingReplaced():
		return plan.Noop(api.NothingToClean)
	case wanted:
		patch := plan.PatchOf(plan.StatefulSets, in.Set).AddFinalizer(api.CleanupFinalizer).Label(api.FinalizerLabel, api.FinalizerForCleanup)
		return plan.Do(api.FinalizerAdded, patch.Actions()...)
	}
	return plan.Do(api.FinalizerRemoved, removeFinalizer(plan.PatchOf(plan.StatefulSets, in.Set)).Actions()...)
}

// isBeingReplaced reports whether restore replaces the set. Restore removes our finalizer before it deletes the set, and creates the
// new set with it.
func (in Input) isBeingReplaced() bool {
	resize, err := api.LoadResize(in.Set)
	return err == nil && resize.Active() && resize.ReplaceSet
}

// removeFinalizer adds the removal of our finalizer and its label to the patch.
func removeFinalizer(patch *plan.Patch) *plan.Patch {
	return patch.RemoveFinalizer(api.CleanupFinalizer).Unlabel(api.FinalizerLabel)
}
