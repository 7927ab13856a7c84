package cleanuppod

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/functions/pauseowner"
	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// TestRefusedSiblingKeepsItsClaims: one custom resource has two sets, db and web, in one group. Both have decided to sleep. For db,
// pause-owner has stopped the resource, so its operator stops web, too. Then pause-owner refuses the sleep of web: for a reason that
// concerns web only, or because its event was late. The resource stays stopped for db.
func TestRefusedSiblingKeepsItsClaims(t *testing.T) {
	group := build.Label(api.GroupLabel, "shop")
	byCluster := build.ControlledBy("PerconaXtraDBCluster", "main")
	dbSleep := build.Sleep(api.Asleep, build.OwnerStops(), build.AsleepFor(time.Minute),
		func(s *api.Sleep) { s.Set = api.SetRef{Name: "db", UID: "uid-db"} })
	autoscaler := pauseowner.Owner{Ref: metav1.OwnerReference{Kind: "HorizontalPodAutoscaler", Name: "web"},
		Problem: "its minReplicas is 0, so it also scales the set up from zero; set minReplicas to 1"}
	for name, row := range map[string]struct {
		due     time.Duration
		second  []pauseowner.Owner
		refused int32 // replicas when it is refused
	}{
		"an autoscaler of web scales from zero; web is stopped":      {time.Minute, []pauseowner.Owner{autoscaler}, 0},
		"an autoscaler of web scales from zero; web is stopped next": {time.Minute, []pauseowner.Owner{autoscaler}, 3},
		"the event of web is late; web is stopped":                   {-time.Second, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			db := build.Set("db", group, build.UID("uid-db"), build.Replicas(0), build.ReplicaCounts(0, 0), byCluster,
				build.IdleTimeout("1h"), build.Annotation(api.SleepAnnotation, dbSleep.Encode()), build.LastActivity(9*time.Hour))
			set := web(group, build.Replicas(row.refused), build.ReplicaCounts(row.refused, row.refused), byCluster,
				build.IdleTimeout("1h"), build.LastActivity(9*time.Hour), settledRecord(3),
				build.WithSleep(build.Sleep(api.Planned, build.SleepDue(row.due))))
			ofDB := stoppedCluster(t, db, dbSleep)
			cluster := pauseowner.Owner{Ref: metav1.OwnerReference{APIVersion: "pxc.percona.com/v1", Kind: "PerconaXtraDBCluster",
				Name: "main", UID: "uid-main"}, Row: ofDB.Row, Resource: ofDB.Resource, Object: ofDB.Object, Allowed: true}
			p := pauseowner.Decide(pauseowner.Input{Observed: build.World(set), Namespace: build.Namespace, Settings: build.SleepSettings(),
				Owners: append([]pauseowner.Owner{cluster}, row.second...), Siblings: []*appsv1.StatefulSet{db}})
			t.Logf("pause-owner: %s", p)
			set = afterPlan(set, p)
			for range 3 {
				p := idleTimeout(build.Now, "web", db, set)
				t.Logf("idle-timeout: %s", p)
				set = afterPlan(set, p)
			}
			set = build.With(set, build.Replicas(0), build.ReplicaCounts(0, 0)) // the operator obeys the stop
			objects := []metav1.Object{set, usedClaim("data-web-0"), usedClaim("data-web-1"), usedClaim("data-web-2")}
			expectCleanupWithoutSleep(t, objects...)
			lists := read(objects...)
			lists["controllerrevisions"] = append(lists["controllerrevisions"], metav1.Object(ofDB.Revision))
			in := observed(t, lists)
			if p := Decide(in); p.Kind == plan.KindDo && p.Reason == api.CleanupStarted {
				t.Errorf("the operator starts web again when db wakes, but its claims are cleaned up: %s; sleep %s", p,
					set.Annotations[api.SleepAnnotation])
			}
		})
	}
}
