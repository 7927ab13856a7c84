package detectresize

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// TestGrowthAfterWithdrawalWithOldResizer: the claims requested 1Ti, which the storage could not give, and now request 128Mi. The driver's
// external-resizer is older than KEP-1790, or has its feature gate off, so no claim has status.allocatedResources. It has grown the volumes
// to 128Mi (PersistentVolume.spec.capacity says so), and the kubelet grows their file systems within a minute, as for any online expansion.
// That is a success. It must not count as growth to 1Ti, and above all the claims must not request 1Ti again.
func TestGrowthAfterWithdrawalWithOldResizer(t *testing.T) {
	record := expanding(keepsTemplates, func(r *api.Resize) {
		for i := range r.Expansions {
			r.Expansions[i].Withdraws = resource.MustParse("1Ti")
		}
	})
	var claims objects
	for _, name := range []string{"data-web-0", "data-web-1"} {
		both := expandable(name, "128Mi", "64Mi", fileSystemPending(time.Second))
		both[1].(*corev1.PersistentVolume).Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("128Mi")}
		claims = append(claims, both...)
	}
	for range 3 {
		p := Decide(given(expandableSet(record), claims, pods()))
		if strings.Contains(p.String(), "to 1Ti") {
			t.Fatalf("the claims request the withdrawn size again: %s", p)
		}
		if record = build.Stored(p); record == nil {
			return
		}
		if record.Reason == api.ClaimEnlarged {
			t.Errorf("the volumes have 128Mi: %s", record.Message)
		}
	}
}
