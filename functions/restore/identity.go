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
