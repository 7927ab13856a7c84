package operation

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

// RaiseRequest returns a patch that raises the claim's request to the size. It is empty if the claim already requests as much. A claim that
// still requests withdrawn, which an earlier expansion has not reached, requests the size instead.
func RaiseRequest(claim *corev1.PersistentVolumeClaim, size, withdrawn resource.Quantity) *plan.Patch {
	patch := plan.PatchOf(plan.Claims, claim)
	overshoots, present := statefulset.Overshoots(claim, api.Target{Size: size, Exact: true}), statefulset.Requested(claim)
	if overshoots {
		size = statefulset.Smallest(claim, size)
	}
	if present.Cmp(size) < 0 || overshoots && present.Cmp(withdrawn) == 0 {
		patch.Replace(statefulset.RequestPath, size.String(), fmt.Sprintf("request %s to %s", &present, &size))
	}
	return patch
}

// LowerRequest returns a patch that lowers the claim's request to its former size, or to the smallest size that Kubernetes accepts. The
// storage then stops its attempts. The patch is empty if the volume has grown, if it grows at the next mount, or if another process
// requests more.
func LowerRequest(claim *corev1.PersistentVolumeClaim, from, size resource.Quantity) *plan.Patch {
	patch := plan.PatchOf(plan.Claims, claim)
	requested, smallest := statefulset.Requested(claim), statefulset.Smallest(claim, from)
	attempted := statefulset.Growing(claim) && statefulset.FileSystemPending(claim, size) == nil && requested.Cmp(size) <= 0
	if attempted && requested.Cmp(smallest) > 0 {
		patch.Replace(statefulset.RequestPath, smallest.String(), fmt.Sprintf("request %s to %s", &requested, &smallest))
	}
	return patch
}

// CannotGrow returns the message for a claim that the storage cannot expand to the size.
func CannotGrow(claim *corev1.PersistentVolumeClaim, size resource.Quantity) string {
	return fmt.Sprintf("the storage of class %s cannot expand claim %s to %s: %s. Other claims may have grown. Ask for less, or set %s=%s "+
		"and ask again with %s", statefulset.ClassOf(claim), claim.Name, &size, WhyNotGrown(claim), api.ResizeMethodAnnotation, api.MethodCopy,
		api.RetryAnnotation)
}

// RequestGrown returns a patch that makes the claim request the withdrawn size again, because its volume has that size. So a later request
// for less is known to shrink the volume.
func RequestGrown(claim *corev1.PersistentVolumeClaim, withdrawn resource.Quantity) *plan.Patch {
	if !statefulset.ReachedWithdrawn(claim, withdrawn) {
		return plan.PatchOf(plan.Claims, claim)
	}
	return RaiseRequest(claim, withdrawn, resource.Quantity{})
}

// GrewToWithdrawn returns the message for a volume that has grown to a size that its claim should no longer request.
func GrewToWithdrawn(claim *corev1.PersistentVolumeClaim, size resource.Quantity, howToRetry string) string {
	return fmt.Sprintf("the volume of claim %s has grown beyond %s, because the storage had begun that before the claim requested less. "+
		"To shrink the volume by a copy, %s", claim.Name, &size, howToRetry)
}

// WhyNotGrown returns the storage's error from the claim's conditions, or a command that shows more.
func WhyNotGrown(claim *corev1.PersistentVolumeClaim) string {
	for _, c := range claim.Status.Conditions {
		if (c.Type == corev1.PersistentVolumeClaimControllerResizeError || c.Type == corev1.PersistentVolumeClaimNodeResizeError) &&
			c.Message != "" {
			return c.Message
		}
	}
	return "see kubectl describe pvc -n " + claim.Namespace + " " + claim.Name
}
