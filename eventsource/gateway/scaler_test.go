package gateway

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// TestSetAtZeroByItsScalerIsStopped: the user has set the count of the Scaler to 0, or has paused it. idle-timeout does not wake such a
// set, also not with wake-replicas, because the count of a Scaler is the user's request. So the gateway must not tell visitors that it
// wakes, let them wait, and write awake-until again and again.
func TestSetAtZeroByItsScalerIsStopped(t *testing.T) {
	record := &api.Scale{Header: api.Header{Version: api.RecordVersion, Kind: api.KindScale, Phase: api.Succeeded, Operation: build.ID,
		Set: api.SetRef{Name: "web", UID: "uid-web"}, Started: metav1.NewTime(build.Now)},
		Scaler: api.ScalerRef{Name: "pilot", UID: "uid-pilot"}, Paused: true}
	set := build.Set("web", build.Replicas(0), build.Annotation(api.IdleTimeoutAnnotation, "1h"),
		build.Annotation(api.WakeReplicasAnnotation, "3"), build.Annotation(api.ScaleAnnotation, record.Encode()))
	if loaded, err := api.LoadScale(set); err != nil || loaded == nil {
		t.Fatal(err)
	}
	if m := memberOf(set); m.State.wakes() || m.WakesAlone {
		t.Errorf("visitors see %q and wait, and each request writes awake-until (%v)", m.State, m.WakesAlone)
	}
}
