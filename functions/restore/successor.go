package restore

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
)

// create creates the claim on the volume that is reserved for it. If another process deleted the claim, no volume is reserved: the claim
// then gets the new volume if its swap was done, else the old one.
func (s swap) create() step {
	if volume := s.reservedVolume(); volume != nil {
		if volume.Spec.ClaimRef.UID != "" { // the successor claim was deleted
			return s.reserveAgain(volume)
		}
		manifest, err := api.ClaimManifest(volume)
		if err != nil {
			return wait("%v", err)
		}
		return act([]plan.Action{plan.Create(plan.Claims, claimToCreate(manifest))})
	}
	volume, target := s.old, api.Target{Size: s.move.From}
	switch {
	case s.new != nil && (s.getsNewVolume() || s.member.Phase == api.MemberStarting):
		volume, target = s.new, s.move.Target()
	case s.move.InPlace && volume != nil: // it may have grown
		target.Size = smaller(s.move.To, volume.Spec.Capacity[corev1.ResourceStorage])
	}
	if volume == nil || s.Set == nil || statefulset.Template(s.Set, s.move.Template) == nil {
		return wait("claim %s was deleted; its data is on volume %s", s.move.Claim, s.move.OldVolume)
	}
	claim := resources.MakeClaim(s.Manifest(), s.move.Template, s.move.Claim)
	return act(s.ifClaimUnchanged(reservation(volume, resources.MakeSuccessor(claim, volume, target, s.successor()))))
}

// claimToCreate returns the claim of the manifest as it is created. settleClaim adds the rest.
func claimToCreate(manifest *unstructured.Unstructured) *unstructured.Unstructured {
	claim := resources.UnblockOwners(manifest)
	unstructured.RemoveNestedField(claim.Object, "metadata", "annotations", api.OperationAnnotation)
	return claim
}

// awaitBinding handles a claim that the StatefulSet controller created before restore could. Kubernetes binds it to the reserved volume
// if they match. If they do not, the claim has no volume and no data, and is deleted.
func awaitBinding(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) step {
	if volume != nil {
		capacity, requested := volume.Spec.Capacity[corev1.ResourceStorage], statefulset.Requested(claim)
		differs := statefulset.ClassOf(claim) != volume.Spec.StorageClassName ||
			claimAttributesClass(claim) != volumeAttributesClass(volume)
		if differs || requested.Cmp(capacity) > 0 || !offersModes(volume, claim.Spec.AccessModes) {
			return act([]plan.Action{plan.Delete(plan.Claims, claim)})
		}
	}
	return wait("claim %s is not bound yet", claim.Name)
}

// settleClaim finishes a claim on its volume. It merges the stored manifest into the claim as soon as the volume is bound. The volume
// controller binds a reserved volume in two workers at once. If they collide, the claim stays Pending until it is written to, or for 15 s
// (kubernetes pkg/controller/volume/persistentvolume, bind and syncVolume). The link, which every new claim lacks, is that write.
func settleClaim(in Input, claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) step {
	if lostItsVolume(claim, volume) {
		return act(plan.PatchOf(plan.Volumes, volume).Replace("/spec/claimRef/uid", claim.UID, "of claim "+claim.Name).Actions())
	}
	if volume.Status.Phase != corev1.VolumeBound || volume.Spec.ClaimRef == nil || volume.Spec.ClaimRef.UID != claim.UID {
		return wait("volume %s is being bound to claim %s", volume.Name, claim.Name)
	}
	if merge := mergeManifest(in, claim, volume); len(merge) > 0 {
		return act(merge)
	}
	if claim.Status.Phase != corev1.ClaimBound {
		return wait("claim %s is being bound to volume %s", claim.Name, volume.Name)
	}
	return step{actions: plan.PatchOf(plan.Volumes, volume).Unannotate(api.ClaimManifestAnnotation).Actions(), settledOn: volume}
}

// lostItsVolume reports whether the claim was bound to the volume, and the volume no longer names the claim's UID. Kubernetes does not bind
// such a claim again, but accepts the UID as a binding (kubernetes pkg/controller/volume/persistentvolume, syncBoundClaim).
func lostItsVolume(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) bool {
	ref := volume.Spec.ClaimRef
	return claim.Status.Phase == corev1.ClaimLost && claim.Spec.VolumeName == volume.Name && claim.DeletionTimestamp == nil &&
		ref != nil && ref.Namespace == claim.Namespace && ref.Name == claim.Name && ref.UID == ""
}

// mergeManifest gives a claim the labels, annotations, finalizers and owners of its predecessor. The StatefulSet controller may have
// created the claim without them.
func mergeManifest(in Input, claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) []plan.Action {
	manifest, err := api.LoadClaim(volume)
	if err != nil || manifest == nil {
		return nil
	}
	patch := plan.PatchOf(plan.Claims, claim)
	for _, key := range slices.Sorted(maps.Keys(manifest.Labels)) {
		patch.Label(key, manifest.Labels[key])
	}
	for _, key := range slices.Sorted(maps.Keys(manifest.Annotations)) {
		patch.Annotate(key, manifest.Annotations[key])
	}
	for _, finalizer := range manifest.Finalizers {
		patch.AddFinalizer(finalizer)
	}
	mergeOwners(patch, claim, manifest.OwnerReferences, in.Rejected == "")
	return patch.Actions()
}

// mergeOwners adds the owners that the claim lacks. With block, it also restores blockOwnerDeletion; the API server may refuse that.
func mergeOwners(patch *plan.Patch, claim *corev1.PersistentVolumeClaim, owners []metav1.OwnerReference, block bool) {
	if len(owners) > 0 && claim.OwnerReferences == nil {
		patch.Replace("/metadata/ownerReferences", []metav1.OwnerReference{}, "owners")
	}
	for _, owner := range owners {
		blocks := ptr.Deref(owner.BlockOwnerDeletion, false)
		i := slices.IndexFunc(claim.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == owner.UID })
		if i >= 0 && blocks && block {
			path, present := fmt.Sprintf("/metadata/ownerReferences/%d/blockOwnerDeletion", i),
				ptr.Deref(claim.OwnerReferences[i].BlockOwnerDeletion, false)
			plan.Set(patch, path, present, true, "blockOwnerDeletion of "+owner.Kind+" "+owner.Name)
		}
		if i < 0 {
			if blocks {
				owner.BlockOwnerDeletion = ptr.To(block)
			}
			patch.Replace("/metadata/ownerReferences/-", owner, "owner "+owner.Kind+" "+owner.Name)
		}
	}
}
