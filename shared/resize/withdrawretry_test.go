package resize

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// TestRetryOfWithdrawalStopsNoMember: the user gave up 1Ti and requested the size that the volumes have. The claims request it (plus one
// byte), and the storage did not stop trying 1Ti before the deadline. The message says: retry. The retry must stop no member: nothing has
// to grow, and a storage that cannot expand a volume in use carries out the 1Ti as soon as the volume is detached.
func TestRetryOfWithdrawalStopsNoMember(t *testing.T) {
	withdrawn := build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("67108865")}
		c.Status.AllocatedResources = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Ti")}
		c.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{
			corev1.ResourceStorage: corev1.PersistentVolumeClaimControllerResizeInProgress}
	})
	failed := build.Status(build.Operation(api.Failed, func(r *api.Resize) {
		r.Request, r.Reason, r.FailedAt = "data=64Mi", api.DeadlineExceeded, api.Expanding
	}))
	for _, by := range []api.Method{api.MethodAuto, api.MethodExpand, api.MethodExpandOffline, api.MethodCopy} {
		in := input(setAsking("data=64Mi", failed, method(by), build.Annotation(api.RetryAnnotation, "now")),
			expandable("data-web-0", "64Mi", withdrawn), expandable("data-web-1", "64Mi", withdrawn))
		changes, reason, err := NeededChanges(in)
		if err != nil || changes == nil {
			t.Errorf("%s: %s, %v", by, reason, err)
			continue
		}
		if record := changes.Record(in); len(record.Members) > 0 {
			t.Errorf("%s: %d members stop, although the volumes have 64Mi", by, len(record.Members))
		}
	}
}
