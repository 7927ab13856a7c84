package restore

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
)

// settle finishes a claim on its new volume. What is merged into the claim is merged as soon as the volume is bound, and
// not later: the volume controller binds a reserved volume in two workers at once, and when they collide, the claim is
// left Pending until something writes to it, or for 15 s (kubernetes pkg/controller/volume/persistentvolume, bind and
// syncVolume). The link, which every claim lacks at first, is that write.
func settle(in Input, claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) move {
	if volume.Status.Phase != corev1.VolumeBound || volume.Spec.ClaimRef == nil || volume.Spec.ClaimRef.UID != claim.UID {
		return wait("volume %s is being bound to claim %s", volume.Name, claim.Name)
	}
	if merge := mergeManifest(in, claim, volume); len(merge) > 0 {
		return act(merge)
	}
	if claim.Status.Phase != corev1.ClaimBound {
		return wait("claim %s is being bound to volume %s", claim.Name, volume.Name)
	}
	return move{actions: forgetManifest(volume), switched: true}
}

// mergeManifest gives a claim what people wrote on its predecessor: all of it, in case the StatefulSet controller was
// the one to create the claim.
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

// mergeOwners adds the owners that the claim lacks. With block it also sets blockOwnerDeletion where it was found; the API server may
// refuse that.
func mergeOwners(patch *plan.Patch, claim *corev1.PersistentVolumeClaim, owners []metav1.OwnerReference, block bool) {
	if len(owners) > 0 && claim.OwnerReferences == nil {
		patch.Replace("/metadata/ownerReferences", []metav1.OwnerReference{}, "owners")
	}
	for _, owner := range owners {
		blocks := ptr.Deref(owner.BlockOwnerDeletion, false)
		i := slices.IndexFunc(claim.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == owner.UID })
		if i >= 0 && blocks && block {
			path, is := fmt.Sprintf("/metadata/ownerReferences/%d/blockOwnerDeletion", i), ptr.Deref(claim.OwnerReferences[i].BlockOwnerDeletion, false)
			plan.Set(patch, path, is, true, "blockOwnerDeletion of "+owner.Kind+" "+owner.Name)
		}
		if i < 0 {
			if blocks {
				owner.BlockOwnerDeletion = ptr.To(block)
			}
			patch.Replace("/metadata/ownerReferences/-", owner, "owner "+owner.Kind+" "+owner.Name)
		}
	}
}

func forgetManifest(volume *corev1.PersistentVolume) []plan.Action {
	return plan.PatchOf(plan.Volumes, volume).Unannotate(api.ClaimManifestAnnotation).Actions()
}
