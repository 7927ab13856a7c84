package idletimeout

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/statefulset"
	"drydock.dev/test/kit/build"
)

// TestStuckStopIsNoSuccess: an operator has stopped a set for its sleep, and pause-owner has lost its rights to end the stop, which it has
// reported in the record. Drydock restores the replicas after DRYDOCK_READY_TIMEOUT. The operator still obeys Drydock's own stop, and
// scales the set to zero again. The set is needed and was not started, so the wake-up has failed.
func TestStuckStopIsNoSuccess(t *testing.T) {
	waking := sleep(api.Waking, due, build.OwnerStops(), build.AsleepFor(time.Hour), func(s *api.Sleep) {
		s.OwnerProblem = `PerconaXtraDBCluster main stays paused: perconaxtradbclusters "main" is forbidden`
	})
	s := simulation{t: t, now: build.Now, sets: []*appsv1.StatefulSet{web(zero, build.ReplicaCounts(0, 0),
		build.ControlledBy("PerconaXtraDBCluster", "main"), waking, build.LastActivity(0), build.Label("broken", "true"))}}
	for range 60 {
		s.step("web")
		if statefulset.Replicas(s.sets[0]) > 0 {
			s.sets[0] = build.With(s.sets[0], zero, build.ReplicaCounts(0, 0)) // the operator obeys the stop
		}
		s.now = s.now.Add(time.Minute)
	}
	if record := s.sleepOf("web"); record.Phase == api.Succeeded {
		t.Errorf("the set is in use and at zero, because Drydock's stop has not ended: %s (%s)", build.Words(record), record.Message)
	}
}
