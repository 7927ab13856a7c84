package statefulset

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
)

// AttributesPath is where a claim names its VolumeAttributesClass.
const AttributesPath = "/spec/volumeAttributesClassName"

// AttributesOf is the claim's VolumeAttributesClass, empty if it names none.
func AttributesOf(claim *corev1.PersistentVolumeClaim) string {
	if claim.Spec.VolumeAttributesClassName == nil {
		return ""
	}
	return *claim.Spec.VolumeAttributesClassName
}

// CurrentAttributes is the VolumeAttributesClass that the claim's volume has, as its status says; empty if it has none.
func CurrentAttributes(claim *corev1.PersistentVolumeClaim) string {
	if claim.Status.CurrentVolumeAttributesClassName == nil {
		return ""
	}
	return *claim.Status.CurrentVolumeAttributesClassName
}

// ChangesAttributes reports whether the claim asks for another VolumeAttributesClass than the target.
func ChangesAttributes(claim *corev1.PersistentVolumeClaim, target api.Target) bool {
	return target.Attributes != nil && *target.Attributes != AttributesOf(claim)
}

// Modifying reports whether the claim asks for attributes that its volume does not have yet.
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

// ModifyWords says how far the change of the claim's VolumeAttributesClass is; empty if none is under way.
func ModifyWords(claim *corev1.PersistentVolumeClaim) string {
	if claim.Status.ModifyVolumeStatus == nil {
		return ""
	}
	return fmt.Sprintf(", and the change to %q is %s", claim.Status.ModifyVolumeStatus.TargetVolumeAttributesClassName,
		claim.Status.ModifyVolumeStatus.Status)
}
