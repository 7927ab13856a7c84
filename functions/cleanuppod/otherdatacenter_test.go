package cleanuppod

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/test/kit/build"
)

// TestSetOfAnotherDatacenterKeepsItsClaims: a K8ssandraCluster has two datacenters, whose sets db and web have no common group. It is
// stopped for the sleep of db, while web has just woken from its own. The operator stops web, too, although web has no sleep.
func TestSetOfAnotherDatacenterKeepsItsClaims(t *testing.T) {
	for name, replicas := range map[string]int32{"it has stopped all members of web": 0, "it has stopped two of three": 1} {
		t.Run(name, func(t *testing.T) {
			dbSleep := build.Sleep(api.Stopping, build.OwnerStops(), build.SleepDue(time.Minute),
				func(s *api.Sleep) { s.Set, s.StoppedOwner = api.SetRef{Name: "db", UID: "uid-db"}, "uid-cluster" })
			db := build.Set("db", build.UID("uid-db"), build.ControlledBy("CassandraDatacenter", "dc1"),
				build.Annotation(api.SleepAnnotation, dbSleep.Encode()))
			set := web(build.ControlledBy("CassandraDatacenter", "dc2"), build.IdleTimeout("1h"), build.LastActivity(0),
				build.Replicas(replicas), build.ReplicaCounts(replicas, replicas), settledRecord(3),
				build.WithSleep(build.Sleep(api.Succeeded, build.SleepEnded(api.Awake, 0))))
			record := resources.MakeOwnerRecord(db, dbSleep, api.PausedOwner{Version: api.PauseVersion, APIVersion: "k8ssandra.io/v1alpha1",
				Kind: "K8ssandraCluster", Resource: "k8ssandraclusters", Name: "main", UID: "uid-cluster", Stopped: true,
				KindBelow: "CassandraDatacenter"})
			objects := []metav1.Object{set, usedClaim("data-web-0"), usedClaim("data-web-1"), usedClaim("data-web-2")}
			if replicas > 0 {
				objects = append(objects, replica(0))
			}
			expectCleanupWithoutSleep(t, objects...)
			if p := Decide(observedBeside(t, record, objects...)); p.Kind == plan.KindDo && p.Reason == api.CleanupStarted {
				t.Errorf("the operator is stopped for db, and its claims are cleaned up: %s", p)
			}
		})
	}
}
