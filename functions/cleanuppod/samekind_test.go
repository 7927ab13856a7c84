package cleanuppod

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// TestScaleDownAfterSleepWithPausedCluster: a group has two custom resources of one kind, with the sets db and web. The user keeps db
// asleep with the annotation paused. web has slept with it, and wakes. Days later, the user scales web down from three to two, then db
// wakes. The claim of web-2 must be cleaned up, as after any other scale-down.
func TestScaleDownAfterSleepWithPausedCluster(t *testing.T) {
	for name, row := range map[string]struct {
		controllers string
		ofDB, ofWeb types.UID // the stopped owners
	}{
		"the controllers were stopped":  {"PerconaXtraDBCluster", "", ""},
		"the owners above were stopped": {"CassandraDatacenter", "uid-cluster-one", "uid-cluster-two"},
	} {
		group := build.Label(api.GroupLabel, "shop")
		dbSleep := build.Sleep(api.Asleep, build.OwnerStops(), build.AsleepFor(time.Minute),
			func(s *api.Sleep) {
				s.Set, s.Request, s.StoppedOwner = api.SetRef{Name: "db", UID: "uid-db"}, idle.RequestPaused, row.ofDB
			})
		db := build.Set("db", group, build.UID("uid-db"), build.Replicas(0), build.ReplicaCounts(0, 0),
			build.ControlledBy(row.controllers, "one"), build.Annotation(api.PausedAnnotation, "true"), build.IdleTimeout("1h"),
			build.Annotation(api.SleepAnnotation, dbSleep.Encode()), build.LastActivity(9*time.Hour))
		set := web(group, build.Replicas(3), build.ReplicaCounts(3, 3), build.ControlledBy(row.controllers, "two"),
			build.IdleTimeout("1h"), build.LastActivity(0), settledRecord(3),
			build.WithSleep(build.Sleep(api.Waking, build.OwnerStops(), build.SleepDue(time.Minute),
				func(s *api.Sleep) { s.StoppedOwner = row.ofWeb })))
		turn := func() {
			for _, about := range []string{"db", "web", "db", "web"} {
				p := idleTimeout(build.Now, about, db, set)
				t.Logf("%s: %s: %s", name, about, p)
				db, set = afterPlan(db, p), afterPlan(set, p)
			}
		}
		turn()
		set = build.With(set, build.Replicas(2), build.ReplicaCounts(2, 2))
		turn()
		// db has woken, and its sleep is over
		over := dbSleep.Clone()
		over.Phase, over.Reason = api.Succeeded, api.Awake
		db = build.With(db, build.Replicas(3), build.ReplicaCounts(3, 3), build.Annotation(api.SleepAnnotation, over.Encode()))
		turn()
		p := Decide(observed(t, read(set, usedClaim("data-web-0"), usedClaim("data-web-1"), usedClaim("data-web-2"), replica(0), replica(1))))
		if p.Kind != plan.KindDo || p.Reason != api.CleanupStarted {
			t.Errorf("%s: the claim of web-2 is never cleaned up: %s; sleep %s", name, p, set.Annotations[api.SleepAnnotation])
		}
	}
}
