package idletimeout

import (
	"testing"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// TestZeroOfOtherClusterIsRespected: a group has two custom resources of one kind, with the sets db and web. The operator has stopped db.
// Before Drydock has touched the resource of web, the user scales that to zero. Then a visit ends the sleep of the group. web was not
// stopped for a sleep, so it must stay at zero (AtZeroAlready).
func TestZeroOfOtherClusterIsRespected(t *testing.T) {
	group := build.Label(api.GroupLabel, "shop")
	dbSleep := build.Sleep(api.Stopping, build.OwnerStops(), build.SleepDue(time.Minute),
		func(s *api.Sleep) { s.Set = api.SetRef{Name: "db", UID: "uid-db"} })
	db := build.Set("db", group, build.UID("uid-db"), build.Replicas(1), build.ReplicaCounts(1, 1),
		build.ControlledBy("PerconaXtraDBCluster", "one"),
		build.IdleTimeout("1h"), build.Annotation(api.SleepAnnotation, dbSleep.Encode()), build.LastActivity(0))
	set := build.Set("web", group, build.Replicas(0), build.ReplicaCounts(0, 0), build.ControlledBy("PerconaXtraDBCluster", "two"),
		build.IdleTimeout("1h"), build.LastActivity(9*time.Hour), build.WithSleep(build.Sleep(api.Planned, build.SleepDue(time.Minute))))
	p := plan.Plan{}
	for _, about := range []string{"web"} {
		in := Input{Now: build.Now, Name: about, Group: idle.Group{idle.MemberOf(db), idle.MemberOf(set)}, Settings: build.SleepSettings(),
			Probes: map[string]ProbeResult{}, Records: map[string][]Record{}}
		m := in.Group[1]
		_, verdicts := in.judge()
		p = continueSleep(in, in.Group, m, verdicts[1])
		t.Logf("%s", p)
	}
	if p.Reason != api.AtZeroAlready {
		t.Errorf("%s", p)
	}
}
