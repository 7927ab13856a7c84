package idletimeout

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/events"
	"drydock.dev/shared/idle"
	"drydock.dev/test/kit/build"
)

// TestFormerSleepEndsNoAppliedPause: Drydock has paused the Scaler for a sleep. During that sleep, the user applied the pause, too, so both
// own it, and scale-hooks would leave it. The set was restored with its record, and is visited. A pause of Drydock alone ends.
func TestFormerSleepEndsNoAppliedPause(t *testing.T) {
	visited := build.Annotation(api.AwakeUntilAnnotation, idle.FormatTime(time.Now().Add(time.Hour)))
	paused, later := &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:paused":{}}}`)}, &metav1.Time{Time: build.Now}
	for name, applied := range map[string]bool{"the user has applied the pause, too": true, "Drydock alone has paused it": false} {
		pilot := &v1alpha1.Scaler{ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: "pilot", UID: "uid-pilot",
			ResourceVersion: "5", Generation: 7, CreationTimestamp: metav1.NewTime(build.Now.Add(-9 * time.Hour)),
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: api.FieldManager, Time: later, FieldsV1: paused},
				{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationApply, Time: later, FieldsV1: paused}}},
			Spec: v1alpha1.ScalerSpec{Target: "web", Replicas: ptr.To[int32](3), Paused: true}}
		if !applied {
			pilot.ManagedFields = pilot.ManagedFields[:1]
		}
		c := newCluster(t, scaledByPilot(staleWeb(restored("web"), visited)), pilot)
		handle(t, c.function(build.SleepSettings()), newEvent(events.ObjectChanged, "1", time.Now(), aboutWeb))
		if got := pausedPilot(t, c); got != applied {
			t.Errorf("%s: paused is %t after the visit: %s", name, got, build.Words(idle.MemberOf(c.set("web")).Sleep))
		}
	}
}
