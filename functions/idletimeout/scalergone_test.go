package idletimeout

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/functions/scalehooks"
	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/test/kit/build"
)

// TestVisitWakesSetWhosePausedScalerWasDeleted: the Scaler was paused, so the set is at zero, and then the Scaler was deleted. scale-hooks
// keeps its record, because cleanup-pod would else delete the claims. The set has no Scaler, so a visit wakes it with wake-replicas.
func TestVisitWakesSetWhosePausedScalerWasDeleted(t *testing.T) {
	record := &api.Scale{Header: api.Header{Version: api.RecordVersion, Kind: api.KindScale, Phase: api.Succeeded, Operation: build.ID,
		Set: api.SetRef{Name: "web", UID: "uid-web"}, Started: metav1.NewTime(build.Now), Finished: &metav1.Time{Time: build.Now}},
		Scaler: api.ScalerRef{Name: "pilot", UID: "uid-pilot"}, Previous: 3, Target: 0, Paused: true, Adopts: true}
	set := web(build.Replicas(0), build.Annotation(api.WakeReplicasAnnotation, "2"), build.Annotation(api.ScaleAnnotation, record.Encode()))
	marked := scalehooks.Decide(scalehooks.Input{Now: build.Now, Set: set, Namespace: set.Namespace, Name: set.Name})
	if len(marked.Actions) != 1 {
		t.Fatalf("scale-hooks notes nothing: %s", marked)
	}
	record.Reason, record.Scaler.UID = api.ScalerGone, ""
	set.Annotations[api.ScaleAnnotation] = record.Encode()
	cluster := newCluster(t, set)
	handle(t, cluster.function(build.SleepSettings()), newEvent(events.Wake, "1", time.Now(), aboutWeb))
	if got := *cluster.set("web").Spec.Replicas; got != 2 {
		t.Errorf("the Scaler is gone, and after a visit the set has %d replicas: it stays at zero for ever", got)
	}
}
