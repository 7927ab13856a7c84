package idletimeout

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/statefulset"
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
	s := simulation{t: t, now: build.Now, sets: []*appsv1.StatefulSet{db, set}}
	s.step("web")
	if web := s.sets[1]; s.sleepOf("web").Reason != api.AtZeroAlready || statefulset.Replicas(web) != 0 {
		t.Errorf("web has %d replicas, %s:\n%s", statefulset.Replicas(web), build.Words(s.sleepOf("web")), strings.Join(s.log, "\n"))
	}
}
