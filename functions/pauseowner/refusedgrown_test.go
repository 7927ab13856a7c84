package pauseowner

import (
	"testing"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// TestRefusedSleepKeepsAddedMembers: a sleep is decided while the set has three members, and a user scales it to five. The operator is
// stopped for another set when pause-owner refuses the sleep, so the operator stops all five and starts them one by one later.
func TestRefusedSleepKeepsAddedMembers(t *testing.T) {
	in := sleepAsking(build.Sleep(api.Planned, build.SleepDue(-time.Second)), nil, build.ControlledBy("PerconaXtraDBCluster", "main"),
		build.Replicas(5), build.ReplicaCounts(5, 5))
	next := build.StoredSleep(Decide(in))
	if next == nil {
		t.Fatal("no record is stored")
	}
	if next.Phase != api.Refused || next.KeepMembers != 5 {
		t.Errorf("the record does not have the count of five members: keepMembers %d; %s", next.KeepMembers, build.Words(next))
	}
}
