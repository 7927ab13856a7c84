package resize

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// TestWithdrawalPrecedesTheStop: the claim requests 1Ti, which the driver cannot give an attached volume. The user requests 128Mi with
// expand-offline. From the moment that a volume is detached, the storage can grow it to the requested size, and it does not stop before
// that. So the claim requests less before its member stops.
func TestWithdrawalPrecedesTheStop(t *testing.T) {
	asks := build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Ti")}
	})
	in := input(setAsking("data=128Mi", method(api.MethodExpandOffline)), expandable("data-web-0", "64Mi", asks),
		expandable("data-web-1", "64Mi", asks))
	changes, reason, err := NeededChanges(in)
	if err != nil || changes == nil {
		t.Fatal(reason, err)
	}
	record := changes.Record(in)
	if len(record.Expansions) != 2 || len(record.Members) != 2 {
		t.Fatalf("%+v %+v", record.Expansions, record.Members)
	}
	for _, e := range record.Expansions {
		if e.To.String() != "64Mi" || e.Withdraws.String() != "1Ti" {
			t.Errorf("claim %s requests %s while its member runs, and withdraws %s", e.Claim, &e.To, &e.Withdraws)
		}
	}
}
