package plan

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
)

const reclaimPath = "/spec/persistentVolumeReclaimPolicy"

// HoldVolume sets a volume to Retain, remembers the policy found, and links it to the operation. A volume that another
// operation holds still, as an old volume in its window, keeps the policy that was found first.
func HoldVolume(volume *corev1.PersistentVolume, link api.Link) *Patch {
	patch := PatchOf(Volumes, volume).Link(link).Unannotate(api.RetainedUntilAnnotation)
	if _, known := volume.Annotations[api.ReclaimPolicyAnnotation]; !known {
		patch.Annotate(api.ReclaimPolicyAnnotation, string(volume.Spec.PersistentVolumeReclaimPolicy))
	}
	Set(patch, reclaimPath, volume.Spec.PersistentVolumeReclaimPolicy, corev1.PersistentVolumeReclaimRetain, "reclaim Retain")
	return patch
}

// ReleaseVolume gives a volume its own reclaim policy back and removes what Drydock wrote on it.
func ReleaseVolume(volume *corev1.PersistentVolume) *Patch {
	patch := forget(volume)
	if found, known := volume.Annotations[api.ReclaimPolicyAnnotation]; known {
		Set(patch, reclaimPath, volume.Spec.PersistentVolumeReclaimPolicy, corev1.PersistentVolumeReclaimPolicy(found), "reclaim "+found)
	}
	return patch
}

// DiscardVolume has a useless copy deleted as soon as no claim has it, whatever its class says. A volume that was provisioned earlier is
// not Drydock's own: it gets its former reclaim policy back.
func DiscardVolume(volume *corev1.PersistentVolume, since time.Time) *Patch {
	if !ProvisionedSince(volume, since) {
		return ReleaseVolume(volume)
	}
	patch := forget(volume)
	Set(patch, reclaimPath, volume.Spec.PersistentVolumeReclaimPolicy, corev1.PersistentVolumeReclaimDelete, "reclaim Delete")
	return patch
}

// provisionedBy is where every provisioner writes its name on the volumes that it makes
// (kubernetes component-helpers storage/volume, AnnDynamicallyProvisioned).
const provisionedBy = "pv.kubernetes.io/provisioned-by"

// ProvisionedSince reports whether a provisioner made the volume, and not before the time. Any other volume may hold data.
func ProvisionedSince(volume *corev1.PersistentVolume, since time.Time) bool {
	return volume.Annotations[provisionedBy] != "" && !volume.CreationTimestamp.Time.Before(since)
}

// LeaveVolume removes what Drydock wrote on a volume that holds data of others. It stays Retain: its owner has to look at it.
func LeaveVolume(volume *corev1.PersistentVolume) *Patch { return forget(volume) }

func forget(volume *corev1.PersistentVolume) *Patch {
	return PatchOf(Volumes, volume).Unlink().Unannotate(api.ReclaimPolicyAnnotation).
		Unannotate(api.RetainedUntilAnnotation).Unannotate(api.ClaimManifestAnnotation)
}
