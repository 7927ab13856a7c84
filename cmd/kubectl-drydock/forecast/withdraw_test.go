package forecast

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// TestWithdrawalIsTried: an expansion to 1Ti was never reached. An API server before Kubernetes 1.32 refuses each smaller request, and the
// resize fails. The dry run must find that, as it does for larger requests.
func TestWithdrawalIsTried(t *testing.T) {
	asks := build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("64Mi")}
		c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Ti")}
	})
	for _, request := range []string{"data=64Mi", "data=128Mi"} {
		writes, _ := New(given(request, set(build.Template("data", "64Mi", roomy)), claims(roomy, asks), pods())).Writes()
		tried := 0
		for _, w := range writes {
			if w.Resource == plan.Claims && w.Verb == plan.VerbPatch {
				tried++
			}
		}
		if tried != 2 {
			t.Errorf("%s: %d of 2 smaller requests are tried: %v", request, tried, writes)
		}
	}
}
