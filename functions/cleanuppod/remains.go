package cleanuppod

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/cleanup"
	"drydock.dev/shared/events"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

// orphanFinalizer is on an object whose dependents are to be orphaned, until the garbage collector has done so.
const orphanFinalizer = metav1.FinalizerOrphanDependents

// dismiss removes a cleanup pod and leaves its claims alone.
func dismiss(pod *corev1.Pod) plan.Plan {
	switch {
	case pod.DeletionTimestamp == nil:
		return plan.Do(api.CleanupCanceled, plan.Delete(plan.Pods, pod))
	case slices.Contains(pod.Finalizers, api.CleanupFinalizer):
		return plan.Do(api.CleaningUp, plan.PatchOf(plan.Pods, pod).RemoveFinalizer(api.CleanupFinalizer).Actions()...)
	case pod.Status.Phase == corev1.PodSucceeded:
		return plan.WaitSoon(api.CleaningUp, "pod %s is about to go", pod.Name)
	}
	return plan.Wait(api.CleaningUp, "pod %s ends", pod.Name)
}

// letGo takes the next step to remove the cleanup pods that match.
func (in Input) letGo(match func(*corev1.Pod) bool) plan.Plan {
	wait := plan.Noop(api.NothingToClean)
	for _, pod := range in.Pods {
		if cleanup.LinkOf(pod, in.Name) == nil || !match(pod) {
			continue
		}
		switch p := dismiss(pod); p.Kind {
		case plan.KindDo:
			return p
		default:
			wait = p
		}
	}
	return wait
}

// letGoOfAll removes every cleanup pod of a set that is gone. The claims are left alone: nobody has said what is to become of
// them.
func (in Input) letGoOfAll() plan.Plan {
	p := in.letGo(func(*corev1.Pod) bool { return true })
	if p.Kind == plan.KindNoop {
		return plan.Noop(api.SetGone)
	}
	return p
}

// letGoOfStrays removes cleanup pods that no cleanup of this very set tells of: those of another set of the same name, or of a
// cleanup that is over. What they have done is not known to be for this set's good, so their claims are kept.
func (in Input) letGoOfStrays(doc *api.Cleanup) plan.Plan {
	return in.letGo(func(pod *corev1.Pod) bool { return !in.ours(doc, pod) })
}

// cancel ends a cleanup that nobody wants any more: its pods go, the claims stay. A set that is not opted in is written to first:
// the tick does not find it again once its pods are gone.
func (in Input) cancel(doc *api.Cleanup, reason api.Reason, message string) plan.Plan {
	if !doc.Active() {
		return plan.Noop(reason)
	}
	next := in.canceled(doc, reason, message)
	p := plan.Do(reason, append(in.store(next).Unannotate(api.AbortAnnotation).Actions(), operation.NoteOf(in.Set, next, true))...)
	if !statefulset.Managed(in.Set) {
		return p
	}
	if wait := in.letGo(func(*corev1.Pod) bool { return true }); wait.Kind != plan.KindNoop {
		return wait
	}
	return p.Then(events.OperationFailed, doc.Operation).For(api.KindCleanup)
}

func (in Input) canceled(doc *api.Cleanup, reason api.Reason, message string) *api.Cleanup {
	next := operation.Fail(doc, api.Failed, in.Now, reason, message+"; the claims that are left are kept")
	next.Ordinals = nil
	next.Request, next.Replicas, next.Generation = cleanup.Digest(in.Set), statefulset.Replicas(in.Set), in.Set.Status.ObservedGeneration
	return next
}

// finalize puts our finalizer on the set, or takes it away, as the set asks. On one that is being deleted none can be put.
func (in Input) finalize() plan.Plan {
	is, wanted := cleanup.Finalized(in.Set), cleanup.Finalizes(in.Set)
	switch {
	case in.Set.DeletionTimestamp != nil || is == wanted || wanted && in.replaced():
		return plan.Noop(api.NothingToClean)
	case wanted:
		patch := plan.PatchOf(plan.StatefulSets, in.Set).AddFinalizer(api.CleanupFinalizer).Label(api.FinalizerLabel, api.FinalizerForCleanup)
		return plan.Do(api.FinalizerAdded, patch.Actions()...)
	}
	return plan.Do(api.FinalizerRemoved, unfinalize(plan.PatchOf(plan.StatefulSets, in.Set)).Actions()...)
}

// replaced reports whether restore replaces the set, or its claims: it takes our finalizer off before it deletes the set, and the set
// that it creates has it.
func (in Input) replaced() bool {
	resize, err := api.LoadResize(in.Set)
	return err == nil && resize.Active() && resize.ReplaceSet
}

func unfinalize(patch *plan.Patch) *plan.Patch {
	return patch.RemoveFinalizer(api.CleanupFinalizer).Unlabel(api.FinalizerLabel)
}

// unheld says why a set that is being deleted goes without a cleanup; empty if it is to be cleaned up.
func (in Input) unheld(doc *api.Cleanup) string {
	switch {
	case !cleanup.Finalizes(in.Set):
		return "it does not ask for a cleanup on deletion any more"
	case in.orphans():
		return "it was deleted with its replicas orphaned"
	case in.NamespaceEnds:
		return "its namespace is being deleted, so no pod can be made"
	case in.resizes():
		return "a resize was under way"
	case in.aborted():
		return "aborted"
	case !statefulset.CleanupAsked(in.Set):
		return "it has no cleanup pod template"
	}
	if _, problem := in.template(doc); problem != nil {
		return problem.Message
	}
	return ""
}

// orphans reports whether the set was deleted with orphan propagation: its finalizer tells so until the garbage collector has
// orphaned the dependents, and from then on the set's revision does, which had the set as its controller as pods have.
func (in Input) orphans() bool {
	return slices.Contains(in.Set.Finalizers, orphanFinalizer) || in.Revision != nil && !metav1.IsControlledBy(in.Revision, in.Set) ||
		slices.ContainsFunc(in.Pods, in.orphaned)
}

// orphaned reports whether the pod is a replica that nobody controls.
func (in Input) orphaned(pod *corev1.Pod) bool {
	_, replica := statefulset.ParsePodName(in.Set, pod.Name)
	return replica && metav1.GetControllerOf(pod) == nil && statefulset.Selects(in.Set, pod.Labels)
}

// letGoOfSet takes our finalizer away from a set that is being deleted. The claims are kept.
func (in Input) letGoOfSet(doc *api.Cleanup, why string) plan.Plan {
	if p := in.letGo(func(*corev1.Pod) bool { return true }); p.Kind != plan.KindNoop {
		return p
	}
	patch, operation := plan.PatchOf(plan.StatefulSets, in.Set), ""
	if doc != nil {
		operation = doc.Operation
	}
	note := plan.Record(in.Set.Namespace, in.Set.Name, plan.Note{Warning: true, Reason: api.FinalizerRemoved,
		Message: "the StatefulSet goes without a cleanup: " + why + "; its claims are kept", UID: in.Set.UID, Operation: operation})
	if !doc.Active() {
		return plan.Do(api.FinalizerRemoved, append(unfinalize(patch).Actions(), note)...)
	}
	patch.Annotate(api.CleanupAnnotation, in.canceled(doc, api.CleanupCanceled, why).Encode())
	return plan.Do(api.FinalizerRemoved, append(unfinalize(patch).Actions(), note)...).Then(events.OperationFailed, operation).For(api.KindCleanup)
}
