package restore

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/shared/api"
	"drydock.dev/shared/cleanup"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/sts"
)

// withdraw takes back the journal's order to create the set, whether it was carried out or not: were the set deleted by
// somebody else later, it would be created as it was when the order was given, with copies that are stale by then.
func withdraw(in Input, status *api.Resize) []plan.Action {
	journal := in.Journal(status.Operation)
	if journal == nil {
		return nil
	}
	return plan.PatchOf(plan.ControllerRevisions, journal).Unannotate(api.RecreateAnnotation).Actions()
}

func differ(set *appsv1.StatefulSet, templates []api.TemplateTarget) bool {
	return slices.ContainsFunc(templates, func(t api.TemplateTarget) bool {
		return sts.Differs(set, t.Name, t.Target())
	})
}

// recreates reports whether the set is to be created again with its new templates: at zero and with copies that are current, or
// while it runs, where no claim needs another volume. A rollback goes forward whatever somebody has written to the set: its claims
// get volumes that do not become stale, and that claims of the present templates may not fit.
func recreates(in Input, status *api.Resize) bool {
	regardless := status.Live() || status.IsRollback() && !goesBack(in, status)
	return status.Recreate && (regardless || in.Current(status)) && differ(in.Set, status.Templates)
}

// goesBack reports whether a claim is on its way to the volume that it had: the templates have to fit that one until it is bound.
func goesBack(in Input, status *api.Resize) bool {
	return len(oldTemplates(in, status)) > 0 || slices.ContainsFunc(status.Claims, func(c api.ClaimStatus) bool {
		old := in.Volume(c.OldVolume)
		return !c.Settled() && old != nil && reserved(old) != ""
	})
}

// atRest sees to it that nothing of a set runs which is to be created again whatever somebody has written to it.
func atRest(in Input, status *api.Resize) (plan.Plan, bool) {
	if status.Live() || in.Current(status) {
		return plan.Plan{}, true
	}
	if sts.Replicas(in.Set) != 0 {
		return plan.Do(api.SwitchRunning, toZero(in, plan.PatchOf(plan.StatefulSets, in.Set)).Actions()...), false
	}
	if running := in.Quiet(status); running != "" {
		return plan.WaitSoon(api.SwitchRunning, "%s", running), false
	}
	return plan.Plan{}, true
}

// oldTemplates are the templates that claims ask for which have to go back on their old volumes. With the new template
// the StatefulSet controller, if it were to create such a claim before we do, would ask for more than the old volume
// has, and be given a new, empty one. The claims are frozen meanwhile.
//
// Claims of one template may differ in size. What the smallest volume has, every other one has too.
func oldTemplates(in Input, status *api.Resize) []api.TemplateTarget {
	var templates []api.TemplateTarget
	for _, part := range status.Claims {
		claim, old, fresh := in.Claim(part.Name), in.Volume(part.OldVolume), in.Volume(part.NewVolume)
		if claim == nil || old == nil || !frozen(claim) || reservedOf(old, fresh) != nil || staysCurrent(in, status, part, claim, fresh) {
			continue
		}
		back := api.TemplateTarget{Name: part.Template, Size: fits(claim, old), Class: sts.ClassOf(claim), Modes: claim.Spec.AccessModes}
		i := slices.IndexFunc(templates, func(t api.TemplateTarget) bool { return t.Name == part.Template })
		switch {
		case i < 0:
			templates = append(templates, back)
		case back.Size.Cmp(templates[i].Size) < 0:
			templates[i] = back
		}
	}
	return templates
}

// fits is what the claim asks for, but no more than the volume has: one that was to grow, and did not, asks for more, and a claim
// that asks for more than a reserved volume has is not bound to it.
func fits(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) resource.Quantity {
	asks, has := sts.Requested(claim), volume.Spec.Capacity[corev1.ResourceStorage]
	if asks.Cmp(has) > 0 {
		return has
	}
	return asks
}

// recreate replaces the set by one with the given templates, before any claim changes: at zero, or, of a live operation, with
// its replicas, whose pods the new set adopts. What is to be created is stored first. Then the API server is asked whether it
// would create it, and exactly the state that it was made from is deleted, so that no edit of another process is lost.
//
// The order says at first that the copies are current for no set, and for this one only once our own delete was accepted:
// if it is found without that, another process may have started pods and deleted the set before us.
func recreate(in Input, status *api.Resize, templates []api.TemplateTarget) plan.Plan {
	journal := in.Journal(status.Operation)
	if journal == nil { // of a live operation: it touches no volume, and backup was not part of it
		return plan.Do(api.SwitchRunning, plan.Create(plan.ControllerRevisions, resources.MakeJournal(in.Set, status)))
	}
	if finalizer := foreignFinalizer(in.Set); finalizer != "" {
		return plan.Wait(api.SetHeld, "finalizer %s would hold StatefulSet %s when it is deleted to be created again. Remove it",
			finalizer, in.Set.Name)
	}
	if release := dropCleanupFinalizer(in.Set); !release.Empty() {
		return plan.Do(api.SwitchRunning, release.Actions()...)
	}
	current := orderOf(in, status, templates, status.Generation)
	if status.Generation != never && current.patch(journal).Empty() { // another process has deleted the set since it was read
		return plan.WaitSoon(api.SwitchRunning, "StatefulSet %s is being deleted", in.Set.Name)
	}
	order := orderOf(in, status, templates, never)
	if store := order.patch(journal); !store.Empty() {
		return plan.Do(api.SwitchRunning, store.Actions()...)
	}
	remove := plan.Delete(plan.StatefulSets, in.Set)
	remove.Orphan = true
	actions := []plan.Action{plan.Try(plan.StatefulSets, created(order.set)), remove}
	if !status.Live() {
		actions = append(actions, current.patch(journal).Actions()...)
	}
	return plan.Do(api.SwitchRunning, actions...)
}

// never is a generation that no set has: copies that are current for none.
const never = -1

// order is what the journal says is to be created.
type order struct {
	set      *unstructured.Unstructured
	metadata api.SetMetadata
}

// orderOf makes the order to create the set again, with copies that are current for the generation.
func orderOf(in Input, status *api.Resize, templates []api.TemplateTarget, generation int64) order {
	next := status.Clone()
	next.Set.UID, next.Generation = "", generation // the new set's identity is not known before it exists
	make := resources.MakeHeldSet
	if status.Live() {
		make = resources.MakeSet
	}
	set := make(in.Manifest, templates, next)
	if cleanup.Finalizes(in.Set) {
		set = resources.AddCleanupFinalizer(set)
	}
	return order{set: set, metadata: api.SetMetadataOf(in.Set)}
}

// patch stores the order in the journal.
func (o order) patch(journal *appsv1.ControllerRevision) *plan.Patch {
	return plan.PatchOf(plan.ControllerRevisions, journal).Annotate(api.RecreateAnnotation, api.EncodeManifest(o.set)).
		Annotate(api.SetMetadataAnnotation, o.metadata.Encode())
}

// created returns the set as it is sent to the API server: without the identity of the one that it was made from.
func created(set *unstructured.Unstructured) *unstructured.Unstructured {
	fresh := set.DeepCopy()
	fresh.SetUID("")
	fresh.SetResourceVersion("")
	return fresh
}

// foreignFinalizer returns a finalizer of the set that is neither ours nor Kubernetes' own; empty if there is none. It would keep the
// deleted set for as long as its controller likes.
func foreignFinalizer(set *appsv1.StatefulSet) string {
	for _, finalizer := range set.Finalizers {
		if finalizer != api.CleanupFinalizer && finalizer != metav1.FinalizerOrphanDependents && finalizer != metav1.FinalizerDeleteDependents {
			return finalizer
		}
	}
	return ""
}

// dropCleanupFinalizer removes the finalizer by which cleanup-pod would hold the deleted set. The set that is created has it again.
func dropCleanupFinalizer(set *appsv1.StatefulSet) *plan.Patch {
	patch := plan.PatchOf(plan.StatefulSets, set)
	if !cleanup.Finalized(set) {
		return patch
	}
	return patch.RemoveFinalizer(api.CleanupFinalizer).Unlabel(api.FinalizerLabel)
}
