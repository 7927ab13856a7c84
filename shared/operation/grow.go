package operation

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/text"
)

// RequestSize returns a patch that makes the claim request at least the size. A larger request is lowered if the storage has refused it.
func RequestSize(claim *corev1.PersistentVolumeClaim, size resource.Quantity) *plan.Patch {
	requested := statefulset.Requested(claim)
	if requested.Cmp(size) >= 0 {
		return LowerRequest(claim, size)
	}
	return plan.PatchOf(plan.Claims, claim).Replace(statefulset.RequestPath, size.String(), requestWords(requested, size))
}

// LowerRequest returns a patch that lowers the claim's request to the size, or to the smallest size that Kubernetes accepts. The storage
// then stops its attempts. The patch is empty unless the storage has refused the larger size.
func LowerRequest(claim *corev1.PersistentVolumeClaim, size resource.Quantity) *plan.Patch {
	patch := plan.PatchOf(plan.Claims, claim)
	requested, smallest := statefulset.Requested(claim), statefulset.Smallest(claim, size)
	if statefulset.GrowthRefused(claim) && requested.Cmp(smallest) > 0 {
		patch.Replace(statefulset.RequestPath, smallest.String(), requestWords(requested, smallest))
	}
	return patch
}

func requestWords(from, to resource.Quantity) string {
	return fmt.Sprintf("request %s to %s", &from, &to)
}

// CannotGrow returns the message for a claim that the storage cannot expand to the size.
func CannotGrow(claim *corev1.PersistentVolumeClaim, size resource.Quantity) string {
	return fmt.Sprintf("the storage of class %s cannot expand claim %s to %s: %s. Other claims may have grown. Ask for less, or set %s=%s "+
		"and ask again with kubectl drydock retry", statefulset.ClassOf(claim), claim.Name, &size, WhyNotGrown(claim),
		api.ResizeMethodAnnotation, api.MethodCopy)
}

// GrowthContinues returns the end of a message about an aborted resize: which claims the storage still grows in place. It is empty if there
// are none.
func GrowthContinues(resize *api.Resize, claim func(name string) *corev1.PersistentVolumeClaim) string {
	var growing []*corev1.PersistentVolumeClaim
	add := func(name string) {
		if c := claim(name); c != nil && statefulset.StorageGrows(c) && !slices.Contains(growing, c) {
			growing = append(growing, c)
		}
	}
	for _, e := range resize.Expansions {
		add(e.Claim)
	}
	for _, move := range resize.Moves() {
		if move.InPlace {
			add(move.Claim)
		}
	}
	if len(growing) == 0 {
		return ""
	}
	size, others := statefulset.Requested(growing[0]), ""
	if more := len(growing) - 1; more > 0 {
		others = fmt.Sprintf(" (and %s)", text.Number(more, "other claim", "other claims"))
	}
	return fmt.Sprintf(". The storage still grows claim %s%s to %s, because it finishes what it has begun. To shrink the volume afterwards, "+
		"request the smaller size with %s", growing[0].Name, others, &size, api.ResizeAnnotation)
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
