package resize

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/test/kit/build"
)

// TestOldSizeWithdrawsUnreachedSize: an expansion to 1Ti exceeded its deadline, so the claims still request 1Ti, and their volumes have
// 64Mi. The user gives up, and requests the size that the volumes have. Otherwise the storage keeps trying, and may grow the volumes for
// good.
func TestOldSizeWithdrawsUnreachedSize(t *testing.T) {
	asks := func(size string) build.Option {
		return build.Edit(func(c *corev1.PersistentVolumeClaim) {
			c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
		})
	}
	failed := build.Status(build.Operation(api.Failed, func(r *api.Resize) {
		r.Request, r.Reason, r.FailedAt = "data=1Ti", api.DeadlineExceeded, api.Expanding
	}))
	for _, by := range []api.Method{api.MethodAuto, api.MethodExpand, api.MethodExpandOffline, api.MethodCopy} {
		in := input(setAsking("data=64Mi", failed, method(by)), expandable("data-web-0", "64Mi", asks("1Ti")),
			expandable("data-web-1", "64Mi", asks("67108865"))) // a withdrawn claim requests one byte more than it has
		changes, reason, err := NeededChanges(in)
		if err != nil || changes == nil {
			t.Errorf("%s: claim data-web-0 keeps requesting 1Ti (%s, %v)", by, reason, err)
			continue
		}
		record := changes.Record(in)
		if len(record.Expansions) != 1 || len(record.Members) > 0 {
			t.Errorf("%s: %+v; members stop: %+v", by, record.Expansions, record.Members)
			continue
		}
		e := record.Expansions[0]
		patch := operation.RaiseRequest(in.Claim(e.Claim), e.To, e.Withdraws)
		if e.Claim != "data-web-0" || !strings.Contains(fmt.Sprint(patch.Actions()), "request 1Ti to 67108865") {
			t.Errorf("%s: claim %s: %s", by, e.Claim, patch.Actions())
		}
	}
}
