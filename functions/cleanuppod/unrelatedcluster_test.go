package cleanuppod

import (
	"testing"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/resources"
	"drydock.dev/test/kit/build"
)

// TestSleepOfAnUnrelatedClusterHoldsNoRunningCleanup: a namespace has two K8ssandraClusters, one and two. web belongs to two, and has no
// sleep. Its scale-down is being cleaned up when one is put to sleep, for weeks. The operator of one does not stop web.
func TestSleepOfAnUnrelatedClusterHoldsNoRunningCleanup(t *testing.T) {
	sleep := build.Sleep(api.Asleep, build.OwnerStops(), build.AsleepFor(500*time.Hour),
		func(s *api.Sleep) { s.Set, s.StoppedOwner = api.SetRef{Name: "db", UID: "uid-db"}, "uid-one" })
	db := build.Set("db", build.UID("uid-db"), build.ControlledBy("CassandraDatacenter", "one"),
		build.Annotation(api.SleepAnnotation, sleep.Encode()))
	set := web(build.ControlledBy("CassandraDatacenter", "two"), cleaning(), build.Annotation(api.AbortAnnotation, "now"))
	record := resources.MakeOwnerRecord(db, sleep, api.PausedOwner{Version: api.PauseVersion, APIVersion: "k8ssandra.io/v1alpha1",
		Kind: "K8ssandraCluster", Resource: "k8ssandraclusters", Name: "one", UID: "uid-one", Stopped: true,
		KindBelow: "CassandraDatacenter"})
	in := observedBeside(t, record, set, replica(0), usedClaim("data-web-0"), usedClaim("data-web-1"))
	if p := Decide(in); p.Reason != api.Aborted {
		t.Errorf("the running cleanup cannot be aborted: %s; busy for a resize %t, a sleep %t, a scaling %t", p,
			operation.Of(set).Busy(api.KindResize), operation.Of(set).Busy(api.KindSleep), operation.Of(set).Busy(api.KindScale))
	}
}
