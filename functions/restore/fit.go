package restore

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/statefulset"
)

// claimAttributesClass returns the claim's VolumeAttributesClass, or empty. The volume controller binds a claim only to a volume with the
// same class (kubernetes pkg/controller/volume/persistentvolume/index.go).
func claimAttributesClass(claim *corev1.PersistentVolumeClaim) string {
	return ptr.Deref(claim.Spec.VolumeAttributesClassName, "")
}

// volumeAttributesClass returns the volume's VolumeAttributesClass, or empty.
func volumeAttributesClass(volume *corev1.PersistentVolume) string {
	return ptr.Deref(volume.Spec.VolumeAttributesClassName, "")
}

// offersModes reports whether the volume has all the access modes. The volume controller binds no other volume (kubernetes
// pkg/controller/volume/persistentvolume/index.go).
func offersModes(volume *corev1.PersistentVolume, modes []corev1.PersistentVolumeAccessMode) bool {
	return !slices.ContainsFunc(modes, func(m corev1.PersistentVolumeAccessMode) bool {
		return !slices.Contains(volume.Spec.AccessModes,
			m)
	})
}

// fittingSize returns the size that the claim requests, but at most the volume's capacity. A claim that failed to grow requests more, and
// Kubernetes binds no claim to a reserved volume that is too small.
func fittingSize(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) resource.Quantity {
	return smaller(statefulset.Requested(claim), volume.Spec.Capacity[corev1.ResourceStorage])
}

func smaller(a, b resource.Quantity) resource.Quantity {
	if a.Cmp(b) > 0 {
		return b
	}
	return a
}
