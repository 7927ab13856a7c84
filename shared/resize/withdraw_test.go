package resize

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// TestSmallerRequestWithdrawsUnreachedSize: an expansion to 1Ti exceeded its deadline, so the claims still request 1Ti, and their volumes
// have 64Mi. Now the user requests 128Mi.
func TestSmallerRequestWithdrawsUnreachedSize(t *testing.T) {
	asks := build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Ti")}
	})
	failed := build.Status(build.Operation(api.Failed, func(r *api.Resize) {
		r.Request, r.Reason, r.FailedAt = "data=1Ti", api.DeadlineExceeded, api.Expanding
	}))
	for request, want := range map[string]int{"data=128Mi": 2, "data=128Mi+": 0} { // the claims request at least 128Mi
		for _, by := range []api.Method{api.MethodExpand, api.MethodExpandOffline} {
			in := input(setAsking(request, failed, method(by)), expandable("data-web-0", "64Mi", asks), expandable("data-web-1", "64Mi", asks))
			changes, reason, err := NeededChanges(in)
			if err != nil || changes == nil || len(changes.Claims) != want {
				t.Errorf("%s, %s: %+v (%s, %v)", request, by, changes, reason, err)
				continue
			}
			record := changes.Record(in)
			for _, c := range in.Claims {
				var patch *plan.Patch
				if by == api.MethodExpandOffline && want > 0 {
					move := record.Move(c.Name)
					patch = operation.RaiseRequest(c, move.To, move.Withdraws)
				} else if want > 0 {
					e := record.Expansions[0]
					patch = operation.RaiseRequest(c, e.To, e.Withdraws)
				}
				if want > 0 && !strings.Contains(fmt.Sprint(patch.Actions()), "request 1Ti to 128Mi") {
					t.Errorf("%s, %s: claim %s keeps requesting 1Ti: %s", request, by, c.Name, patch.Actions())
				}
			}
		}
	}
}

// TestGrowthOfOthersIsNotWithdrawn: another client has raised the claim during the expansion.
func TestGrowthOfOthersIsNotWithdrawn(t *testing.T) {
	claim := build.Claim("data-web-0", "1Ti")
	claim.Status.Phase = corev1.ClaimBound
	claim.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("64Mi")}
	if patch := operation.RaiseRequest(claim, resource.MustParse("128Mi"), resource.Quantity{}); !patch.Empty() {
		t.Errorf("%s", patch.Actions())
	}
}

// TestWithdrawalNeedsNoRoom: two claims request 1Ti that they never got, and the quota was lowered since, or the claims were created before
// it. The smaller request frees quota. The API server checks no quota for an update that uses less.
func TestWithdrawalNeedsNoRoom(t *testing.T) {
	asks := build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Ti")}
	})
	in := quota(input(setAsking("data=128Mi"), expandable("data-web-0", "64Mi", asks), expandable("data-web-1", "64Mi")),
		"requests.storage", "512Gi", "2Ti")
	w, _, err := NeededChanges(in)
	if err != nil || w == nil {
		t.Fatal(w, err)
	}
	for _, p := range Preflight(in, w) {
		t.Errorf("the withdrawal is refused: %s: %s", p.Reason, p.Message)
	}
}
