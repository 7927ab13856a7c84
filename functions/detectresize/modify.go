package detectresize

import (
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

// modified reports whether the claim's volume has the VolumeAttributesClass that the expansion gives it.
func modified(claim *corev1.PersistentVolumeClaim, e *api.Expansion) bool {
	return e.Attributes == nil || statefulset.AttributesOf(claim) == *e.Attributes && !statefulset.Modifying(claim)
}

// withdrawClass adds to the patch that the claim asks for the VolumeAttributesClass of its volume. Kubernetes accepts no class only while the
// volume has none, and a driver that has begun may finish first (kubernetes pkg/apis/core/validation, ValidatePersistentVolumeClaimUpdate).
// After a deadline the claim still asks for the new class: the storage may be slow.
func withdrawClass(reason api.Reason, patch *plan.Patch, claim *corev1.PersistentVolumeClaim, e *api.Expansion) {
	if e.Attributes == nil || statefulset.AttributesOf(claim) != *e.Attributes || !statefulset.Modifying(claim) {
		return // another process has asked for another class, or the volume has it
	}
	if reason != api.Aborted && !(reason == api.AttributesInfeasible && statefulset.AttributesInfeasible(claim, *e.Attributes)) {
		return
	}
	has := statefulset.CurrentAttributes(claim)
	switch {
	case has == *e.Attributes:
	case has == "":
		patch.RemoveField([]string{"spec", "volumeAttributesClassName"})
	default:
		plan.Set(patch, statefulset.AttributesPath, statefulset.AttributesOf(claim), has, "attributes "+has)
	}
}

// modifyError returns the storage's error from the claim's conditions.
func modifyError(claim *corev1.PersistentVolumeClaim) string {
	for _, c := range claim.Status.Conditions {
		if c.Type == corev1.PersistentVolumeClaimVolumeModifyVolumeError && c.Message != "" {
			return c.Message
		}
	}
	return "see kubectl describe pvc " + claim.Name
}
