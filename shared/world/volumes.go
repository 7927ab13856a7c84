package world

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
)

const reclaimPath = "/spec/persistentVolumeReclaimPolicy"

// HoldVolume sets a volume to Retain, remembers the policy found, and links it to the operation. A volume that another
// operation holds still, as an old volume in its window, keeps the policy that was found first.
func HoldVolume(volume *corev1.PersistentVolume, link api.Link) *plan.Patch {
	patch := plan.PatchOf(plan.Volumes, volume).Link(link).Unannotate(api.RetainedUntilAnnotation)
	if _, known := volume.Annotations[api.ReclaimPolicyAnnotation]; !known {
		patch.Annotate(api.ReclaimPolicyAnnotation, string(volume.Spec.PersistentVolumeReclaimPolicy))
	}
	plan.Set(patch, reclaimPath, volume.Spec.PersistentVolumeReclaimPolicy, corev1.PersistentVolumeReclaimRetain, "reclaim Retain")
	return patch
}

// ReleaseVolume gives a volume its own reclaim policy back and removes what Drydock wrote on it.
func ReleaseVolume(volume *corev1.PersistentVolume) *plan.Patch {
	patch := forget(volume)
	if found, known := volume.Annotations[api.ReclaimPolicyAnnotation]; known {
		plan.Set(patch, reclaimPath, volume.Spec.PersistentVolumeReclaimPolicy, corev1.PersistentVolumeReclaimPolicy(found), "reclaim "+found)
	}
	return patch
}

// DiscardVolume has a useless copy deleted as soon as no claim has it, whatever its class says. A volume that was provisioned earlier is
// not Drydock's own: it gets its former reclaim policy back.
func DiscardVolume(volume *corev1.PersistentVolume, since time.Time) *plan.Patch {
	if !ProvisionedSince(volume, since) {
		return ReleaseVolume(volume)
	}
	patch := forget(volume)
	plan.Set(patch, reclaimPath, volume.Spec.PersistentVolumeReclaimPolicy, corev1.PersistentVolumeReclaimDelete, "reclaim Delete")
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
func LeaveVolume(volume *corev1.PersistentVolume) *plan.Patch { return forget(volume) }

func forget(volume *corev1.PersistentVolume) *plan.Patch {
	return plan.PatchOf(plan.Volumes, volume).Unlink().Unannotate(api.ReclaimPolicyAnnotation).
		Unannotate(api.RetainedUntilAnnotation).Unannotate(api.ClaimManifestAnnotation)
}

// Expired reports whether the volume is an old one whose window is over.
func Expired(volume *corev1.PersistentVolume, now time.Time) bool {
	link, err := api.LoadLink(volume)
	if err != nil || link == nil || link.Role != api.RoleRetired || freed(volume) {
		return false
	}
	until, known := retainedUntil(volume)
	return known && now.After(until)
}

// InWindow reports whether an operation has left the volume behind and says until when it is kept.
func InWindow(volume *corev1.PersistentVolume) bool {
	link, err := api.LoadLink(volume)
	_, known := retainedUntil(volume)
	return err == nil && link != nil && link.Role == api.RoleRetired && known
}

// freed reports whether an administrator has cleared the volume's claimRef, to use the volume again. Drydock has nothing to do with it
// any more.
func freed(volume *corev1.PersistentVolume) bool { return volume.Spec.ClaimRef == nil }

func retainedUntil(volume *corev1.PersistentVolume) (until time.Time, known bool) {
	until, err := time.Parse(time.RFC3339, volume.Annotations[api.RetainedUntilAnnotation])
	return until, err == nil
}

// MayBeOrphan reports whether no claim has the volume, for a while already, and an operation still holds it, which says of no time
// when it is given back. If the operation has no set and no journal any more, as after the end of a namespace, nothing else finds it.
func MayBeOrphan(volume *corev1.PersistentVolume, now time.Time) bool {
	link, err := api.LoadLink(volume)
	if err != nil || link == nil || InWindow(volume) || freed(volume) {
		return false
	}
	if volume.Status.Phase != corev1.VolumeReleased && volume.Status.Phase != corev1.VolumeAvailable {
		return false
	}
	since := volume.Status.LastPhaseTransitionTime
	return since == nil || link.Role == api.RoleForeign || now.Sub(since.Time) >= orphanGrace
}
