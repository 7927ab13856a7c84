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

// TestMembersAddedBeforeTheSiblingsStopKeepTheirClaims: one custom resource has the sets db and web. The sleep of web is decided while it
// has three members, and waits for that of db. A user scales web to five, and pause-owner sees that. Then the sleep of db is decided, so
// pause-owner stops the resource for db, and its operator stops web before pause-owner comes back to web.
func TestMembersAddedBeforeTheSiblingsStopKeepTheirClaims(t *testing.T) {
	group, byCluster := build.Label(api.GroupLabel, "shop"), build.ControlledBy("PerconaXtraDBCluster", "main")
	set := web(group, byCluster, build.IdleTimeout("1h"), build.LastActivity(9*time.Hour), build.Replicas(5), build.ReplicaCounts(5, 5),
		settledRecord(5), build.WithSleep(build.Sleep(api.Planned, build.SleepDue(time.Minute))))
	dbSleep := build.Sleep(api.Planned, build.SleepDue(time.Minute), func(s *api.Sleep) {
		s.Set, s.Operation = api.SetRef{Name: "db", UID: "uid-db"}, api.OperationID("uid-db", string(api.KindSleep), 1)
	})
	db := build.Set("db", group, build.UID("uid-db"), byCluster, build.IdleTimeout("1h"), build.LastActivity(9*time.Hour), build.Replicas(1),
		build.ReplicaCounts(1, 1))
	ofDB := stoppedCluster(t, db, dbSleep)
	cluster := func(stopped bool) []pauseowner.Owner {
		o := pauseowner.Owner{Ref: metav1.OwnerReference{APIVersion: "pxc.percona.com/v1", Kind: "PerconaXtraDBCluster",
			Name: "main", UID: "uid-main"}, Row: ofDB.Row, Resource: ofDB.Resource, Object: ofDB.Object.DeepCopy(), Allowed: true}
		if !stopped {
			o.Object.Object["spec"] = map[string]any{}
			o.Object.SetAnnotations(nil)
		}
		return []pauseowner.Owner{o}
	}
	idles := func(about string) {
		for range 4 {
			p := idleTimeout(build.Now, about, db, set)
			t.Logf("idle-timeout, %s: %s", about, p)
			db, set = afterPlan(db, p), afterPlan(set, p)
			if p.Kind != plan.KindDo {
				return
			}
		}
	}
	pauses := func(stopped bool, of **appsv1.StatefulSet, sibling *appsv1.StatefulSet) {
		for range 4 {
			p := pauseowner.Decide(pauseowner.Input{Observed: build.World(*of), Namespace: build.Namespace, Settings: build.SleepSettings(),
				Owners: cluster(stopped), Siblings: []*appsv1.StatefulSet{sibling}})
			t.Logf("pause-owner, %s: %s", (*of).Name, p)
			before := (*of).Annotations[api.SleepAnnotation]
			if *of = afterPlan(*of, p); p.Kind != plan.KindDo || (*of).Annotations[api.SleepAnnotation] == before {
				return
			}
		}
	}
	pauses(false, &set, db) // web waits for db, with five members
	db = build.With(db, build.Annotation(api.SleepAnnotation, dbSleep.Encode()))
	pauses(false, &db, set) // stores that the operator stops db, then stops the resource
	// the operator obeys the stop
	set = build.With(set, build.Replicas(0), build.ReplicaCounts(0, 0))
	db = build.With(db, build.Replicas(0), build.ReplicaCounts(0, 0))
	pauses(true, &set, db)
	pauses(true, &db, set)
	idles("web")
	idles("db")
	set = build.With(set, build.LastActivity(0)) // a visit
	idles("web")
	idles("db")
	set = build.With(set, build.Replicas(3), build.ReplicaCounts(3, 3)) // the operator has started db, and three of five
	db = build.With(db, build.Replicas(1), build.ReplicaCounts(1, 1))
	idles("web")
	idles("db")
	idles("web")
	in := on(set, replica(0), replica(1), replica(2), usedClaim("data-web-0"), usedClaim("data-web-1"), usedClaim("data-web-2"),
		usedClaim("data-web-3"), usedClaim("data-web-4"))
	if p := Decide(in); p.Reason == api.CleanupStarted {
		t.Errorf("the operator starts members 3 and 4 next, and their claims are cleaned up: %s; sleep %s", p,
			set.Annotations[api.SleepAnnotation])
	}
}
