package cleanuppod

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/functions/idletimeout"
	"drydock.dev/shared/api"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// TestScaleDownAfterSleepWithPausedDatacenter: a group has two K8ssandraClusters, one and two, whose datacenters have the sets db and web.
// The user keeps db asleep with the annotation paused. web has slept with it, and wakes. Days later, the user scales web down from three to
// two, then db wakes. The claim of web-2 must be cleaned up, as after any other scale-down.
func TestScaleDownAfterSleepWithPausedDatacenter(t *testing.T) {
	group := build.Label(api.GroupLabel, "shop")
	dbSleep := build.Sleep(api.Asleep, build.OwnerStops(), build.AsleepFor(time.Minute),
		func(s *api.Sleep) {
			s.Set, s.Request, s.StoppedOwner = api.SetRef{Name: "db", UID: "uid-db"}, idle.RequestPaused, "uid-cluster-one"
		})
	db := build.Set("db", group, build.UID("uid-db"), build.Replicas(0), build.ReplicaCounts(0, 0),
		build.ControlledBy("CassandraDatacenter", "one"), build.Annotation(api.PausedAnnotation, "true"), build.IdleTimeout("1h"),
		build.Annotation(api.SleepAnnotation, dbSleep.Encode()), build.LastActivity(9*time.Hour))
	set := web(group, build.Replicas(3), build.ReplicaCounts(3, 3), build.ControlledBy("CassandraDatacenter", "two"),
		build.IdleTimeout("1h"), build.LastActivity(0), settledRecord(3),
		build.WithSleep(build.Sleep(api.Waking, build.OwnerStops(), build.SleepDue(time.Minute),
			func(s *api.Sleep) { s.StoppedOwner = "uid-cluster-two" })))
	turn := func() {
		for _, about := range []string{"db", "web", "db", "web"} {
			p := idletimeout.Decide(idletimeout.Input{Now: build.Now, Name: about, Group: idle.Group{idle.MemberOf(db), idle.MemberOf(set)},
				Settings: build.SleepSettings(), Probes: map[string]idletimeout.ProbeResult{}, Records: map[string][]idletimeout.Record{}})
			t.Logf("%s: %s", about, p)
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
	lists := read(set, usedClaim("data-web-0"), usedClaim("data-web-1"), usedClaim("data-web-2"),
		metav1.Object(replica(0)), metav1.Object(replica(1)))
	in, err := functionOn(t, lists).observe(t.Context(), ref, false)
	if err != nil {
		t.Fatal(err)
	}
	in.PodRejected, in.Doubt = "", ""
	if p := Decide(in); p.Kind != plan.KindDo || p.Reason != api.CleanupStarted {
		t.Errorf("the claim of web-2 is never cleaned up: %s; sleep %s", p, set.Annotations[api.SleepAnnotation])
	}
}
