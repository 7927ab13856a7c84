package statefulset

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
)

// AttributesPath is the path of a claim's VolumeAttributesClass.
const AttributesPath = "/spec/volumeAttributesClassName"

// AttributesOf returns the claim's VolumeAttributesClass, or "".
func AttributesOf(claim *corev1.PersistentVolumeClaim) string {
	if claim.Spec.VolumeAttributesClassName == nil {
		return ""
	}
	return *claim.Spec.VolumeAttributesClassName
}

// CurrentAttributes returns the VolumeAttributesClass of the claim's volume according to its status, or "".
func CurrentAttributes(claim *corev1.PersistentVolumeClaim) string {
	if claim.Status.CurrentVolumeAttributesClassName == nil {
		return ""
	}
	return *claim.Status.CurrentVolumeAttributesClassName
}

// ChangesAttributes reports whether the claim requests another VolumeAttributesClass than the target.
func ChangesAttributes(claim *corev1.PersistentVolumeClaim, target api.Target) bool {
	return target.Attributes != nil && *target.Attributes != AttributesOf(claim)
}

// Modifying reports whether the claim requests attributes that its volume does not have yet.
func Modifying(claim *corev1.PersistentVolumeClaim) bool {
	return AttributesOf(claim) != CurrentAttributes(claim) || claim.Status.ModifyVolumeStatus != nil
}

// AttributesInfeasible reports whether the storage has refused to give the volume this VolumeAttributesClass
// (kubernetes KEP-3751; the external resizer writes it).
func AttributesInfeasible(claim *corev1.PersistentVolumeClaim, class string) bool {
	status := claim.Status.ModifyVolumeStatus
	return status != nil && status.Status == corev1.PersistentVolumeClaimModifyVolumeInfeasible &&
		status.TargetVolumeAttributesClassName == class
}

// ModifyWords returns the progress of a change of the claim's VolumeAttributesClass, or "" without one.
func ModifyWords(claim *corev1.PersistentVolumeClaim) string {
	if claim.Status.ModifyVolumeStatus == nil {
		return ""
	}
	return fmt.Sprintf(", and the change to %q is %s", claim.Status.ModifyVolumeStatus.TargetVolumeAttributesClassName,
		claim.Status.ModifyVolumeStatus.Status)
}
