package cleanuppod

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/test/kit/build"
)

// TestSiblingThatIsStoppedTooKeepsItsClaims: one custom resource has two sets, db and web, in one group. Both have decided to sleep. For
// db, pause-owner has stopped the resource, so its operator stops web, too. For web, pause-owner gets its event only with the next tick:
// idle-timeout announces the step of one set only. Before that, an activity wakes the group. The operator starts its sets one after the
// other.
func TestSiblingThatIsStoppedTooKeepsItsClaims(t *testing.T) {
	group := build.Label(api.GroupLabel, "shop")
	database, dc1, dc2 := build.ControlledBy("Database", "main"), build.ControlledBy("CassandraDatacenter", "dc1"),
		build.ControlledBy("CassandraDatacenter", "dc2")
	for name, row := range map[string]struct {
		replicas         int32
		ofDB, ofWeb      build.Option
		kind, plural, id string
		below            string
	}{
		"it has stopped all members of web": {0, database, database, "Database", "databases", "uid-main", ""},
		"it has stopped two of three":       {1, database, database, "Database", "databases", "uid-main", ""},
		// the sets have two controllers, which belong to the stopped K8ssandraCluster
		"it has stopped all members of another datacenter": {0, dc1, dc2, "K8ssandraCluster", "k8ssandraclusters", "uid-cluster",
			"CassandraDatacenter"},
		"it has stopped two of three in another": {1, dc1, dc2, "K8ssandraCluster", "k8ssandraclusters", "uid-cluster",
			"CassandraDatacenter"},
	} {
		t.Run(name, func(t *testing.T) {
			replicas := row.replicas
			stopping := build.Sleep(api.Stopping, build.OwnerStops(), build.SleepDue(time.Minute),
				func(s *api.Sleep) { s.Set, s.StoppedOwner = api.SetRef{Name: "db", UID: "uid-db"}, types.UID(row.id) })
			db := build.Set("db", group, build.UID("uid-db"), build.Replicas(1), build.ReplicaCounts(1, 1), row.ofDB,
				build.IdleTimeout("1h"), build.Annotation(api.SleepAnnotation, stopping.Encode()), build.LastActivity(0))
			set := web(group, build.Replicas(replicas), build.ReplicaCounts(replicas, replicas), row.ofWeb,
				build.IdleTimeout("1h"), build.LastActivity(9*time.Hour), settledRecord(3),
				build.WithSleep(build.Sleep(api.Planned, build.SleepDue(9*time.Minute))))
			for _, about := range []string{"db", "web", "db", "web", "db", "web"} {
				p := idleTimeout(build.Now, about, db, set)
				t.Logf("%s", p)
				db, set = afterPlan(db, p), afterPlan(set, p)
			}
			record := resources.MakeOwnerRecord(db, stopping, api.PausedOwner{Version: api.PauseVersion, APIVersion: "example.com/v1",
				Kind: row.kind, Resource: row.plural, Name: "main", UID: types.UID(row.id), Stopped: true,
				KindBelow: row.below})
			objects := []metav1.Object{set, usedClaim("data-web-0"), usedClaim("data-web-1"), usedClaim("data-web-2")}
			if replicas > 0 {
				objects = append(objects, replica(0))
			}
			expectCleanupWithoutSleep(t, objects...)
			if p := Decide(observedBeside(t, record, objects...)); p.Kind == plan.KindDo && p.Reason == api.CleanupStarted {
				t.Errorf("the operator has been told to stop web, and starts it again, but its claims are cleaned up: %s; sleep %s", p,
					set.Annotations[api.SleepAnnotation])
			}
		})
	}
}
