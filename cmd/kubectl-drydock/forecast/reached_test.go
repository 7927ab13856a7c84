package forecast

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// TestPlanKnowsThatReachedSizeShrinks: a resize withdrew 1Ti and failed, because the storage had not given that up. Then the volumes
// reached 1Ti, while the claims request 128Mi. A retry copies both volumes to smaller ones, with a stop of each member (see
// TestRetryAfterSlowStorageIsNoSuccess). The plan must not say that no member stops.
func TestPlanKnowsThatReachedSizeShrinks(t *testing.T) {
	failed := build.Operation(api.Failed, func(r *api.Resize) {
		r.Request, r.Reason, r.FailedAt = "data=128Mi", api.DeadlineExceeded, api.Expanding
		for _, name := range []string{"data-web-0", "data-web-1"} {
			r.Expansions = append(r.Expansions, api.Expansion{Claim: name, UID: types.UID("uid-" + name), Template: "data",
				Volume: "pv-" + name, From: resource.MustParse("64Mi"), To: resource.MustParse("128Mi"), Withdraws: resource.MustParse("1Ti")})
		}
	})
	plan := func(template, requested string) *Document {
		reached := build.Edit(func(c *corev1.PersistentVolumeClaim) {
			c.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Ti")}
			c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(requested)}
		})
		web := build.Set("web", build.Replicas(2), build.Template("data", template, roomy), build.Status(failed), build.Resize("data=128Mi"))
		return New(given("data=128Mi", objects{web}, claims(roomy, reached), pods())).Document(nil, nil)
	}
	for _, template := range []string{"64Mi", "128Mi"} {
		if d := plan(template, "1Ti"); d.Stop.None || len(d.Claims) != 2 {
			t.Fatalf("after the first write of the retry: %+v", d)
		}
		if d := plan(template, "128Mi"); d.Stop.None {
			t.Errorf("template %s: the plan says %q, that no member stops, and that %d claims change", template, d.Verdict, len(d.Claims))
		}
	}
}
