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

// cancelling ends a cleanup that must not go on, and releases its set.
type cancelling struct{ Input }

func (in Input) cancelling() cancelling { return cancelling{in} }

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
func (c cancelling) removePods(match func(*corev1.Pod) bool) plan.Plan {
	wait := plan.Noop(api.NothingToClean)
	for _, pod := range c.Pods {
		if cleanup.LinkOf(pod, c.Name) == nil || !match(pod) {
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
func (c cancelling) removeAllPods() plan.Plan {
	p := c.removePods(func(*corev1.Pod) bool { return true })
	if p.Kind == plan.KindNoop {
		return plan.Noop(api.SetGone)
	}
	return p
}

// removeStrayPods removes cleanup pods that do not belong to the running cleanup of this set. They come from another set of the same
// name, from a finished cleanup, or from a request that has arrived after a scale-up. Their result may not apply to this set, so their
// claims are kept.
func (c cancelling) removeStrayPods(record *api.Cleanup) plan.Plan {
	return c.removePods(func(pod *corev1.Pod) bool { return !c.isOurs(record, pod) || !c.isOrdered(pod) })
}

// cancel ends a running cleanup: it removes the pods and keeps the claims. The record of a set that is not opted in is written first,
// because the tick does not find the set after its pods are gone.
func (c cancelling) cancel(record *api.Cleanup, reason api.Reason, message string) plan.Plan {
	if !record.Active() {
		return plan.Noop(reason)
	}
	next := c.canceledRecord(record, reason, message)
	p := plan.Do(reason, append(c.accounts().store(next).Unannotate(api.AbortAnnotation).Actions(), operation.NoteOf(c.Set, next, true))...)
	if !statefulset.Managed(c.Set) {
		return p
	}
	if wait := c.removePods(func(*corev1.Pod) bool { return true }); wait.Kind != plan.KindNoop {
		return wait
	}
	return p.Then(events.OperationFailed, record.Operation).For(api.KindCleanup)
}

// canceledRecord returns the record of a canceled cleanup.
func (c cancelling) canceledRecord(record *api.Cleanup, reason api.Reason, message string) *api.Cleanup {
	next := operation.Fail(record, api.Failed, c.Now, reason, message+"; the remaining claims are kept")
	next.Ordinals = nil
	next.Request, next.Order = cleanup.Digest(c.Set), members.OrderNumber(c.Set)
	return next
}

// releaseReason returns why a set that is being deleted is not cleaned up, or "" if it is.
func (c cancelling) releaseReason(record *api.Cleanup) string {
	switch {
	case members.IsMade(c.Set):
		return "its operator may create it again"
	case !cleanup.NeedsFinalizer(c.Set):
		return "it no longer requests a cleanup on deletion"
	case c.isOrphanDeletion():
		return "it was deleted with orphan propagation"
	case c.NamespaceEnds:
		return "its namespace is being deleted, so no pod can be created"
	case c.Journal || operation.Of(c.Set).Resizing():
		return "a resize was in progress"
	case c.isAborted():
		return "aborted at the user's request"
	case !statefulset.CleanupAsked(c.Set):
		return "it has no cleanup pod template"
	}
	if _, problem := c.round().template(record); problem != nil {
		return problem.Message
	}
	return ""
}

// isOrphanDeletion reports whether the set was deleted with orphan propagation. Until the garbage collector has orphaned the
// dependents, the set's finalizer shows it. Afterwards the set's ControllerRevision or a pod shows it, because the set no longer
// controls them.
func (c cancelling) isOrphanDeletion() bool {
	return slices.Contains(c.Set.Finalizers, orphanFinalizer) || c.Revision != nil && !metav1.IsControlledBy(c.Revision, c.Set) ||
		slices.ContainsFunc(c.Pods, c.isOrphaned)
}

// isOrphaned reports whether the pod is a replica without a controller.
func (c cancelling) isOrphaned(pod *corev1.Pod) bool {
	_, replica := statefulset.ParsePodName(c.Set, pod.Name)
	return replica && metav1.GetControllerOf(pod) == nil && statefulset.Selects(c.Set, pod.Labels)
}

// releaseSet removes our finalizer from a set that is being deleted. The claims are kept.
func (c cancelling) releaseSet(record *api.Cleanup, why string) plan.Plan {
	if p := c.removePods(func(*corev1.Pod) bool { return true }); p.Kind != plan.KindNoop {
		return p
	}
	patch, operation := plan.PatchOf(plan.StatefulSets, c.Set), ""
	if record != nil {
		operation = record.Operation
	}
	note := plan.Event(c.Set.Namespace, c.Set.Name, plan.Note{Warning: true, Reason: api.FinalizerRemoved,
		Message: "the StatefulSet is deleted without a cleanup: " + why + "; its claims are kept", UID: c.Set.UID, Operation: operation})
	if !record.Active() {
		return plan.Do(api.FinalizerRemoved, append(removeFinalizer(patch).Actions(), note)...)
	}
	patch.Annotate(api.CleanupAnnotation, c.canceledRecord(record, api.CleanupCanceled, why).Encode())
	return plan.Do(api.FinalizerRemoved, append(removeFinalizer(patch).Actions(), note)...).
		Then(events.OperationFailed, operation).For(api.KindCleanup)
}

// reconcileFinalizer adds or removes our finalizer, as the set's annotations request. A finalizer cannot be added during deletion.
func (c cancelling) reconcileFinalizer() plan.Plan {
	present, wanted := cleanup.HasFinalizer(c.Set), cleanup.NeedsFinalizer(c.Set)
	switch {
	case c.Set.DeletionTimestamp != nil || present == wanted || wanted && c.isBeingReplaced():
		return plan.Noop(api.NothingToClean)
	case wanted:
		patch := plan.PatchOf(plan.StatefulSets, c.Set).AddFinalizer(api.CleanupFinalizer).Label(api.FinalizerLabel, api.FinalizerForCleanup)
		return plan.Do(api.FinalizerAdded, patch.Actions()...)
	}
	return plan.Do(api.FinalizerRemoved, removeFinalizer(plan.PatchOf(plan.StatefulSets, c.Set)).Actions()...)
}

// isBeingReplaced reports whether restore replaces the set. Restore removes our finalizer before it deletes the set, and creates the
// new set with it.
func (c cancelling) isBeingReplaced() bool {
	resize, err := api.LoadResize(c.Set)
	return err == nil && resize.Active() && resize.ReplaceSet
}

// removeFinalizer adds the removal of our finalizer and its label to the patch.
func removeFinalizer(patch *plan.Patch) *plan.Patch {
	return patch.RemoveFinalizer(api.CleanupFinalizer).Unlabel(api.FinalizerLabel)
}
