package operation

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

// AskFor returns a patch that raises the claim's request to the size. It is empty if the claim requests as much already.
func AskFor(claim *corev1.PersistentVolumeClaim, size resource.Quantity) *plan.Patch {
	patch := plan.PatchOf(plan.Claims, claim)
	if is := statefulset.Requested(claim); is.Cmp(size) < 0 {
		patch.Replace(statefulset.RequestPath, size.String(), fmt.Sprintf("request %s to %s", &is, &size))
	}
	return patch
}

// AskNoMore returns a patch that lowers the claim's request to its former size, or to the smallest size that Kubernetes accepts, so that the
// storage stops trying. It is empty if the volume has grown, if it grows at the next mount, or if another process has requested more.
func AskNoMore(claim *corev1.PersistentVolumeClaim, from, size resource.Quantity) *plan.Patch {
	patch := plan.PatchOf(plan.Claims, claim)
	asks, least := statefulset.Requested(claim), statefulset.Smallest(claim, from)
	tried := statefulset.Growing(claim) && statefulset.FileSystemPending(claim, size) == nil && asks.Cmp(size) <= 0
	if tried && asks.Cmp(least) > 0 {
		patch.Replace(statefulset.RequestPath, least.String(), fmt.Sprintf("request %s to %s", &asks, &least))
	}
	return patch
}

// CannotGrow returns the message for a claim that the storage cannot expand to the size.
func CannotGrow(claim *corev1.PersistentVolumeClaim, size resource.Quantity) string {
	return fmt.Sprintf("the storage of class %s cannot give claim %s its %s: %s. Other claims may have grown. Ask for less, or write %s=%s and "+
		"ask again with %s", statefulset.ClassOf(claim), claim.Name, &size, WhyNotGrown(claim), api.ResizeMethodAnnotation, api.MethodCopy,
		api.RetryAnnotation)
}

// WhyNotGrown returns the storage's error from the claim's conditions.
func WhyNotGrown(claim *corev1.PersistentVolumeClaim) string {
	for _, c := range claim.Status.Conditions {
		if (c.Type == corev1.PersistentVolumeClaimControllerResizeError || c.Type == corev1.PersistentVolumeClaimNodeResizeError) &&
			c.Message != "" {
			return c.Message
		}
	}
	return "see kubectl describe pvc " + claim.Name
}
