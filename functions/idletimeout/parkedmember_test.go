package idletimeout

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// TestParkedMemberKeepsNoGroupAwake: an operator has started only one of three members of db in time, which does not become ready, so the
// wake-up has failed. The user gives up, and scales the custom resource to zero. Its group must sleep nevertheless, as with any other
// member at zero.
func TestParkedMemberKeepsNoGroupAwake(t *testing.T) {
	group := build.InGroup("shop")
	waking := build.Sleep(api.Waking, build.OwnerStops(), build.AsleepFor(time.Hour), build.SleepDue(-time.Second))
	db := build.Set("db", group, build.Replicas(1), build.ReplicaCounts(1, 0), build.Label("broken", "true"),
		build.ControlledBy("PerconaXtraDBCluster", "main"),
		build.IdleTimeout("1h"), build.LastActivity(time.Minute), build.WithSleep(waking))
	set := web(group, build.Replicas(3), build.ReplicaCounts(3, 3), build.LastActivity(time.Minute))
	s := simulation{t: t, now: build.Now, sets: []*appsv1.StatefulSet{db, set}}
	s.step("db")
	if record := s.sleepOf("db"); record.Phase != api.Failed || record.KeepMembers == 0 {
		t.Fatal(build.Words(record))
	}
	s.sets[0] = build.With(s.sets[0], zero, build.ReplicaCounts(0, 0)) // the user scales the custom resource to zero
	for range 3 {
		s.now = s.now.Add(24 * time.Hour)
		s.step("db")
		s.step("web")
	}
	if sleep := s.sleepOf("web"); sleep == nil {
		_, verdicts := Input{Now: s.now, Group: on(s.sets...).Group}.judge()
		t.Errorf("web was idle for three days, and stays awake: %s", verdicts[1].Why)
	}
}
