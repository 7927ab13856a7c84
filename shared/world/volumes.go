package world

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
)

const reclaimPath = "/spec/persistentVolumeReclaimPolicy"

// HoldVolume sets a volume to Retain, stores its former policy, and links it to the operation. If another operation still holds the volume,
// for example during its retention, the policy stored first stays.
func HoldVolume(volume *corev1.PersistentVolume, link api.Link) *plan.Patch {
	patch := plan.PatchOf(plan.Volumes, volume).Link(link).Unannotate(api.RetainedUntilAnnotation)
	if _, known := volume.Annotations[api.ReclaimPolicyAnnotation]; !known {
		patch.Annotate(api.ReclaimPolicyAnnotation, string(volume.Spec.PersistentVolumeReclaimPolicy))
	}
	plan.Set(patch, reclaimPath, volume.Spec.PersistentVolumeReclaimPolicy, corev1.PersistentVolumeReclaimRetain, "reclaim Retain")
	return patch
}

// ReleaseVolume restores the reclaim policy of a volume and removes Drydock's keys.
func ReleaseVolume(volume *corev1.PersistentVolume) *plan.Patch {
	patch := forget(volume)
	if found, known := volume.Annotations[api.ReclaimPolicyAnnotation]; known {
		plan.Set(patch, reclaimPath, volume.Spec.PersistentVolumeReclaimPolicy, corev1.PersistentVolumeReclaimPolicy(found), "reclaim "+found)
	}
	return patch
}

// DiscardVolume sets a useless copy to Delete, so that it is deleted when no claim has it, even if its class retains volumes. A volume that
// existed before the time is not Drydock's: it gets its former reclaim policy back.
func DiscardVolume(volume *corev1.PersistentVolume, since time.Time) *plan.Patch {
	if !ProvisionedSince(volume, since) {
		return ReleaseVolume(volume)
	}
	patch := forget(volume)
	plan.Set(patch, reclaimPath, volume.Spec.PersistentVolumeReclaimPolicy, corev1.PersistentVolumeReclaimDelete, "reclaim Delete")
	return patch
}

// provisionedBy is the annotation with the name of the provisioner that created a volume
// (kubernetes component-helpers storage/volume, AnnDynamicallyProvisioned).
const provisionedBy = "pv.kubernetes.io/provisioned-by"

// ProvisionedSince reports whether a provisioner created the volume at or after the time. Any other volume may hold data.
func ProvisionedSince(volume *corev1.PersistentVolume, since time.Time) bool {
	return volume.Annotations[provisionedBy] != "" && !volume.CreationTimestamp.Time.Before(since)
}

// LeaveVolume removes Drydock's keys from a volume that holds other data. Its policy stays Retain, so that an administrator can inspect it.
func LeaveVolume(volume *corev1.PersistentVolume) *plan.Patch { return forget(volume) }

func forget(volume *corev1.PersistentVolume) *plan.Patch {
	return plan.PatchOf(plan.Volumes, volume).Unlink().Unannotate(api.ReclaimPolicyAnnotation).
		Unannotate(api.RetainedUntilAnnotation).Unannotate(api.ClaimManifestAnnotation)
}

// Expired reports whether the volume is an old volume whose retention is over.
func Expired(volume *corev1.PersistentVolume, now time.Time) bool {
	link, err := api.LoadLink(volume)
	if err != nil || link == nil || link.Role != api.RoleOldVolume || freed(volume) {
		return false
	}
	until, known := retainedUntil(volume)
	return known && now.After(until)
}

// IsRetained reports whether the volume is an old volume with a retention.
func IsRetained(volume *corev1.PersistentVolume) bool {
	link, err := api.LoadLink(volume)
	_, known := retainedUntil(volume)
	return err == nil && link != nil && link.Role == api.RoleOldVolume && known
}

// freed reports whether an administrator has cleared the volume's claimRef to use the volume again. Drydock then leaves it alone.
func freed(volume *corev1.PersistentVolume) bool { return volume.Spec.ClaimRef == nil }

func retainedUntil(volume *corev1.PersistentVolume) (until time.Time, known bool) {
	until, err := time.Parse(time.RFC3339, volume.Annotations[api.RetainedUntilAnnotation])
	return until, err == nil
}

// MayBeOrphan reports whether the volume has had no claim for a while, and its link has no end of a retention. If the operation has no set
// and no journal any more, for example after the deletion of a namespace, nothing else finds the volume.
func MayBeOrphan(volume *corev1.PersistentVolume, now time.Time) bool {
	link, err := api.LoadLink(volume)
	if err != nil || link == nil || IsRetained(volume) || freed(volume) {
		return false
	}
	if volume.Status.Phase != corev1.VolumeReleased && volume.Status.Phase != corev1.VolumeAvailable {
		return false
	}
	since := volume.Status.LastPhaseTransitionTime
	return since == nil || link.Role == api.RoleForeign || now.Sub(since.Time) >= orphanGrace
}
