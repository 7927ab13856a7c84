package idletimeout

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/events"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/statefulset"
	"drydock.dev/test/kit/build"
)

// TestSleepEndsNoPauseThatHasLostItsCount: a user has paused a Scaler of three members. Both the Scaler and its set were replaced by
// manifests without replicas, so the set has one member and no record, and scale-hooks asks for the count
// (docs/decisions/2026-11-28-scaler-record.md). The set is idle, sleeps, and is visited. The pause must not end, least of all with the
// count 1: cleanup-pod would clean up the other two.
func TestSleepEndsNoPauseThatHasLostItsCount(t *testing.T) {
	pilot := &v1alpha1.Scaler{ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: "pilot", UID: "uid-pilot", ResourceVersion: "5",
		Generation: 4}, Spec: v1alpha1.ScalerSpec{Target: "web", Paused: true},
		Status: v1alpha1.ScalerStatus{Target: &v1alpha1.TargetReference{Name: "web", UID: "uid-before"}}}
	c := newCluster(t, staleWeb(build.Replicas(1), build.ReplicaCounts(1, 1)), pilot)
	event := func() {
		handle(t, c.function(build.SleepSettings()), newEvent(events.ObjectChanged, "1", time.Now(), aboutWeb))
	}
	event()
	reached := func(phase api.Phase) *api.Sleep {
		t.Helper()
		sleep := idle.MemberOf(c.set("web")).Sleep
		if sleep == nil || sleep.Phase != phase {
			t.Fatalf("want the phase %s: %s", phase, build.Words(sleep))
		}
		return sleep
	}
	next := operation.Enter(reached(api.Planned), api.Stopping, time.Now(), time.Hour) // the work of pause-owner
	build.With(c.set("web"), build.Annotation(api.SleepAnnotation, next.Encode()))
	event()
	build.With(c.set("web"), build.ReplicaCounts(0, 0))
	event()
	reached(api.Asleep)
	build.With(c.set("web"), build.Annotation(api.AwakeUntilAnnotation, idle.FormatTime(time.Now().Add(time.Hour))))
	event()
	reached(api.Waking)
	if scaler := c.objects["scalers"][0].(*v1alpha1.Scaler); !scaler.Spec.Paused || scaler.Spec.Replicas != nil {
		t.Errorf("the pause of the user has ended: %+v; the set has %d replicas; %v", scaler.Spec, statefulset.Replicas(c.set("web")),
			c.writes)
	}
}
