package restore

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
)

// recordIdentity takes over the set that was just created: the journal's order to create it is withdrawn. In the same write the set gets
// the managedFields of the set before.
func recordIdentity(in Input, record *api.Resize) plan.Plan {
	metadata := setMetadata(in, record)
	if block := blockOwners(in.Set, metadata.BlockingOwners); in.Rejected == "" && !block.Empty() {
		return plan.Do(api.SwitchRunning, append(withdraw(in, record), block.Actions()...)...)
	}
	next := record.Clone()
	next.Set.UID = in.Set.UID
	store := operation.Store(in.Set, next)
	if len(metadata.ManagedFields) > 0 {
		store.Replace("/metadata/managedFields", managers(metadata.ManagedFields, in.Set.ManagedFields), "managedFields")
	}
	return plan.Do(api.SwitchRunning, append(withdraw(in, record), store.Actions()...)...)
}

// setMetadata reads the set's metadata from the journal. A set works without it, so an unreadable document is ignored.
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

// blockOwners sets blockOwnerDeletion of the owner references that had it. The API server may refuse that; then the operator has to
// do it.
func blockOwners(set *appsv1.StatefulSet, owners []types.UID) *plan.Patch {
	patch := plan.PatchOf(plan.StatefulSets, set)
	for i, owner := range set.OwnerReferences {
		if slices.Contains(owners, owner.UID) && owner.BlockOwnerDeletion != nil {
			path := fmt.Sprintf("/metadata/ownerReferences/%d/blockOwnerDeletion", i)
			plan.Set(patch, path, *owner.BlockOwnerDeletion, true, "blockOwnerDeletion of "+owner.Kind+" "+owner.Name)
		}
	}
	return patch
}

// managers returns the managedFields of the set that was created again: each field keeps its manager, and Drydock's creation manages none.
// Entries of subresources, and of managers that have written since, are taken from the new set.
func managers(before, now []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
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
