package restore

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/cleanup"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
)

// recreate replaces the set around its running pods with a set of the given shape. The set is deleted without its pods, and the set that
// is created from the journal adopts them. First the new manifest is stored in the journal, and a dry run asks the API server whether it
// accepts the manifest. The deletion applies only to the version of the set from which the manifest was made, so no edit of another
// process is lost.
func recreate(in Input, record *api.Resize, shape api.Shape) plan.Plan {
	journal := in.Journal(record.Operation)
	if journal == nil { // the operation only changes templates
		return plan.Do(api.SwapRunning, plan.Create(plan.ControllerRevisions, resources.MakeJournal(in.Set, record)))
	}
	if finalizer := foreignFinalizer(in.Set); finalizer != "" {
		if orders := withdrawOrder(in, record); len(orders) > 0 {
			return plan.Do(api.SetHeld, orders...)
		}
		return plan.Wait(api.SetHeld, "finalizer %s would block the deletion of StatefulSet %s, which must be created again. "+
			"Remove the finalizer", finalizer, in.Set.Name)
	}
	if release := dropCleanupFinalizer(in.Set); !release.Empty() {
		return plan.Do(api.SwapRunning, release.Actions()...)
	}
	set := makeOrder(in, record, shape)
	order := plan.PatchOf(plan.ControllerRevisions, journal).Annotate(api.RecreateAnnotation, api.EncodeManifest(set)).
		Annotate(api.SetMetadataAnnotation, api.SetMetadataOf(in.Set).Encode())
	if !order.Empty() {
		return plan.Do(api.SwapRunning, order.Actions()...)
	}
	remove := plan.Delete(plan.StatefulSets, in.Set)
	remove.Orphan = true
	return plan.Do(api.SwapRunning, plan.Try(plan.StatefulSets, toCreate(set)), remove, plan.Create(plan.StatefulSets, toCreate(set)))
}

// makeOrder returns the manifest of the set to create.
func makeOrder(in Input, record *api.Resize, shape api.Shape) *unstructured.Unstructured {
	next := record.Clone()
	next.Set.UID, next.Former = "", in.Set.UID // the new set has no UID yet
	set := resources.SetFields(resources.MakeSet(in.Manifest(), shape.Templates, next), shape.Fields)
	if cleanup.NeedsFinalizer(in.Set) {
		set = resources.AddCleanupFinalizer(set)
	}
	return set
}

// withdrawOrder removes the journal's order to create the set, carried out or not. If the order stayed and another process deleted the
// set later, the set would be created again from an old manifest.
func withdrawOrder(in Input, record *api.Resize) []plan.Action {
	journal := in.Journal(record.Operation)
	if journal == nil {
		return nil
	}
	return plan.PatchOf(plan.ControllerRevisions, journal).Unannotate(api.RecreateAnnotation).Actions()
}

// differsFrom reports whether the set has another shape.
func differsFrom(set *appsv1.StatefulSet, shape api.Shape) bool {
	return len(statefulset.Unmet(set, shape.Fields)) > 0 || slices.ContainsFunc(shape.Templates, func(t api.TemplateTarget) bool {
		target := t.Target()
		target.Exact = true // detect-resize has already decided about larger templates
		return statefulset.TemplateNeedsChange(set, t.Name, target)
	})
}

// toCreate returns the manifest without UID and resourceVersion, as a create request needs it.
func toCreate(set *unstructured.Unstructured) *unstructured.Unstructured {
	fresh := set.DeepCopy()
	fresh.SetUID("")
	fresh.SetResourceVersion("")
	return fresh
}

// foreignFinalizer returns a finalizer of the set that belongs neither to Drydock nor to Kubernetes itself, or empty. It would keep the
// deleted set until its controller removes it.
func foreignFinalizer(set *appsv1.StatefulSet) string {
	for _, finalizer := range set.Finalizers {
		if finalizer != api.CleanupFinalizer && finalizer != metav1.FinalizerOrphanDependents &&
			finalizer != metav1.FinalizerDeleteDependents {
			return finalizer
		}
	}
	return ""
}

// dropCleanupFinalizer removes cleanup-pod's finalizer, which would keep the deleted set. The new set gets it again.
func dropCleanupFinalizer(set *appsv1.StatefulSet) *plan.Patch {
	patch := plan.PatchOf(plan.StatefulSets, set)
	if !cleanup.HasFinalizer(set) {
		return patch
	}
	return patch.RemoveFinalizer(api.CleanupFinalizer).Unlabel(api.FinalizerLabel)
}

// needsOldTemplates reports whether the set must get its old templates back, because it was created again and no member was moved. The
// claims of a moved member fit only the new templates.
func needsOldTemplates(in Input, record *api.Resize) bool {
	for _, m := range record.Members {
		if m.Phase == api.MemberMoved {
			return false
		}
	}
	return record.ReplaceSet && differsFrom(in.Set, record.OldShape())
}

// needsReplacement reports whether the set must still be created again with its new templates.
func (in Input) needsReplacement(record *api.Resize) bool {
	return record.ReplaceSet && differsFrom(in.Set, record.NewShape())
}

// recordIdentity stores the UID of the set that was just created, and withdraws the journal's order to create it. The same write restores
// the managedFields of the previous set.
func recordIdentity(in Input, record *api.Resize) plan.Plan {
	metadata := setMetadata(in, record)
	if block := blockingOwnersPatch(in.Set, metadata.BlockingOwners); in.Rejected == "" && !block.Empty() {
		return plan.Do(api.SwapRunning, append(withdrawOrder(in, record), block.Actions()...)...)
	}
	next := record.Clone()
	next.Set.UID = in.Set.UID
	store := operation.Store(in.Set, next)
	if len(metadata.ManagedFields) > 0 {
		store.Replace("/metadata/managedFields", mergedManagers(metadata.ManagedFields, in.Set.ManagedFields), "managedFields")
	}
	return plan.Do(api.SwapRunning, append(withdrawOrder(in, record), store.Actions()...)...)
}

// setMetadata returns the metadata of the previous set from the journal. An unreadable document counts as empty, because a set works
// without it.
func setMetadata(in Input, record *api.Resize) api.SetMetadata {
	journal := in.Journal(record.Operation)
	if journal == nil {
		return api.SetMetadata{}
	}
	metadata, err := api.LoadSetMetadata(journal)
	if err != nil {
		return api.SetMetadata{}
	}
	return metadata
}

// blockingOwnersPatch sets blockOwnerDeletion of the owner references that had it before. The API server may refuse that; then the
// operator must set it.
func blockingOwnersPatch(set *appsv1.StatefulSet, owners []types.UID) *plan.Patch {
	patch := plan.PatchOf(plan.StatefulSets, set)
	for i, owner := range set.OwnerReferences {
		if slices.Contains(owners, owner.UID) && owner.BlockOwnerDeletion != nil {
			path := fmt.Sprintf("/metadata/ownerReferences/%d/blockOwnerDeletion", i)
			plan.Set(patch, path, *owner.BlockOwnerDeletion, true, "blockOwnerDeletion of "+owner.Kind+" "+owner.Name)
		}
	}
	return patch
}

// mergedManagers returns the managedFields for the set that was created again. Each field keeps its manager, and Drydock manages no field
// because of the creation. Entries of subresources, and of managers that have written since, come from the new set.
func mergedManagers(before, now []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	kept := slices.DeleteFunc(slices.Clone(before), func(e metav1.ManagedFieldsEntry) bool { return e.Subresource != "" })
	for _, entry := range now {
		ours := entry.Manager == api.FieldManager && entry.Subresource == ""
		known := slices.ContainsFunc(kept, func(e metav1.ManagedFieldsEntry) bool {
			return e.Manager == entry.Manager && e.Operation == entry.Operation && e.APIVersion == entry.APIVersion &&
				e.Subresource == entry.Subresource
		})
		if !ours && !known {
			kept = append(kept, entry)
		}
	}
	return kept
}
