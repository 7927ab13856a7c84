package restore

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
)

// settle finishes a claim on its new volume. What is merged into the claim is merged as soon as the volume is bound, and
// not later: the volume controller binds a reserved volume in two workers at once, and when they collide, the claim is
// left Pending until something writes to it, or for 15 s (kubernetes pkg/controller/volume/persistentvolume, bind and
// syncVolume). The link, which every claim lacks at first, is that write.
func settle(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) move {
	if volume.Status.Phase != corev1.VolumeBound || volume.Spec.ClaimRef == nil || volume.Spec.ClaimRef.UID != claim.UID {
		return wait("volume %s is being bound to claim %s", volume.Name, claim.Name)
	}
	if merge := mergeManifest(claim, volume); len(merge) > 0 {
		return act(merge)
	}
	if claim.Status.Phase != corev1.ClaimBound {
		return wait("claim %s is being bound to volume %s", claim.Name, volume.Name)
	}
	return move{actions: forgetManifest(volume), switched: true}
}

// mergeManifest gives a claim what people wrote on its predecessor: all of it, in case the StatefulSet controller was
// the one to create the claim.
func mergeManifest(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) []plan.Action {
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
	return patch.Actions()
}

func forgetManifest(volume *corev1.PersistentVolume) []plan.Action {
	return plan.PatchOf(plan.Volumes, volume).Unannotate(api.ClaimManifestAnnotation).Actions()
}
