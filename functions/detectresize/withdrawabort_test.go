package detectresize

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// TestSizeWithdrawnByAbortIsNoSuccess: the user aborted an expansion to 1Ti, so the claims request the sizes of the volumes (plus one
// byte). The storage is still growing the volumes to 1Ti, and finishes that. The user requests 128Mi. As for a size that was withdrawn by a
// smaller request (see TestOutrunWithdrawalIsNoSuccess), volumes of 1Ti are no success, and no pod stops so that its file system grows to
// 1Ti.
func TestSizeWithdrawnByAbortIsNoSuccess(t *testing.T) {
	aborted := build.Operation(api.Failed, func(r *api.Resize) {
		r.Request, r.Reason, r.FailedAt = "data=1Ti", api.Aborted, api.Expanding
	})
	both := func(requested, capacity string, options ...build.Option) objects {
		return append(expandable("data-web-0", requested, capacity, options...), expandable("data-web-1", requested, capacity, options...)...)
	}
	ready := objects{member(0, 24*time.Hour), member(1, 24*time.Hour)}
	counts := []build.Option{build.Replicas(2), build.ReplicaCounts(2, 2)}
	grows := attempted("1Ti", corev1.PersistentVolumeClaimControllerResizeInProgress)
	record := build.Stored(Decide(given(expandableSet(aborted, counts...), both("67108865", "64Mi", grows), ready)))
	if record == nil || record.Phase != api.Expanding {
		return // for example, it waits for the storage
	}
	keepsTemplates(record)
	waits := []build.Option{fileSystemPending(12 * time.Hour), attempted("1Ti", corev1.PersistentVolumeClaimNodeResizePending)}
	for _, a := range Decide(given(expandableSet(record, counts...), both("128Mi", "64Mi", waits...), ready)).Actions {
		if a.Verb == plan.VerbEvict {
			t.Errorf("a request for 128Mi stops pod %s so that its file system grows to 1Ti", a.Name)
		}
	}
	if p := Decide(given(expandableSet(record, counts...), both("128Mi", "1Ti"), ready)); p.Reason == api.ResizeCompleted {
		t.Errorf("the resize to 128Mi has succeeded, and the volumes have 1Ti: %s", p)
	}
}
