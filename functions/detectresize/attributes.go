package detectresize

import (
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

// hasAttributes reports whether the claim's volume has the VolumeAttributesClass that the expansion gives it.
func hasAttributes(claim *corev1.PersistentVolumeClaim, e *api.Expansion) bool {
	return e.Attributes == nil || statefulset.AttributesOf(claim) == *e.Attributes && !statefulset.Modifying(claim)
}

// withdrawAttributes adds to the patch that the claim requests the VolumeAttributesClass of its volume again. Kubernetes lets a claim
// drop its class only while the volume has none, and a driver that has started may finish first (kubernetes pkg/apis/core/validation,
// ValidatePersistentVolumeClaimUpdate). After a missed deadline the request stays, because the storage may only be slow.
func withdrawAttributes(reason api.Reason, patch *plan.Patch, claim *corev1.PersistentVolumeClaim, e *api.Expansion) {
	if e.Attributes == nil || statefulset.AttributesOf(claim) != *e.Attributes || !statefulset.Modifying(claim) {
		return // another process has requested another class, or the volume has the class
	}
	if reason != api.Aborted && !(reason == api.AttributesInfeasible && statefulset.AttributesInfeasible(claim, *e.Attributes)) {
		return
	}
	current := statefulset.CurrentAttributes(claim)
	switch {
	case current == *e.Attributes:
	case current == "":
		patch.RemoveField([]string{"spec", "volumeAttributesClassName"})
	default:
		plan.Set(patch, statefulset.AttributesPath, statefulset.AttributesOf(claim), current, "attributes "+current)
	}
}

// modifyError returns the storage's error from the claim's conditions, or a command that shows more.
func modifyError(claim *corev1.PersistentVolumeClaim) string {
	for _, c := range claim.Status.Conditions {
		if c.Type == corev1.PersistentVolumeClaimVolumeModifyVolumeError && c.Message != "" {
			return c.Message
		}
	}
	return "see kubectl describe pvc -n " + claim.Namespace + " " + claim.Name
}
