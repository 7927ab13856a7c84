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

// TestMembersAddedBeforeTheStopKeepTheirClaims: a sleep is decided while the set has three members. Before pause-owner stops the custom
// resource, for example while it waits for the sibling's sleep, a user scales that to five. The operator stops all five for the sleep, and
// starts them one by one for the wake-up.
func TestMembersAddedBeforeTheStopKeepTheirClaims(t *testing.T) {
	byCluster := build.ControlledBy("PerconaXtraDBCluster", "main")
	sleep := build.Sleep(api.Planned, build.SleepDue(time.Minute))
	set := web(byCluster, build.IdleTimeout("1h"), build.LastActivity(9*time.Hour), build.Replicas(5), build.ReplicaCounts(5, 5),
		settledRecord(5), build.WithSleep(sleep))
	stopped := stoppedCluster(t, set, sleep)
	cluster := pauseowner.Owner{Ref: metav1.OwnerReference{APIVersion: "pxc.percona.com/v1", Kind: "PerconaXtraDBCluster",
		Name: "main", UID: "uid-main"}, Row: stopped.Row, Resource: stopped.Resource, Object: stopped.Object, Allowed: true}
	idles := func() {
		p := idleTimeout(build.Now, "web", set)
		t.Logf("idle-timeout: %s", p)
		set = afterPlan(set, p)
	}
	for range 3 { // stores that the operator stops it, then that it stops; the custom resource is stopped already
		p := pauseowner.Decide(pauseowner.Input{Observed: build.World(set), Namespace: build.Namespace, Settings: build.SleepSettings(),
			Owners: []pauseowner.Owner{cluster}, OwnerRecords: []pauseowner.OwnerRecord{stopped}, Siblings: []*appsv1.StatefulSet{}})
		t.Logf("pause-owner: %s", p)
		if p.Kind != plan.KindDo {
			break
		}
		set = afterPlan(set, p)
	}
	idles()
	set = build.With(set, build.Replicas(0), build.ReplicaCounts(0, 0)) // the operator obeys the stop
	idles()
	set = build.With(set, build.LastActivity(0)) // a visit
	idles()
	set = build.With(set, build.Replicas(3), build.ReplicaCounts(3, 3)) // the operator has started three of five
	for range 2 {
		idles()
	}
	in := on(set, replica(0), replica(1), replica(2), usedClaim("data-web-0"), usedClaim("data-web-1"), usedClaim("data-web-2"),
		usedClaim("data-web-3"), usedClaim("data-web-4"))
	if p := Decide(in); p.Reason == api.CleanupStarted {
		t.Errorf("the operator starts members 3 and 4 next, and their claims are cleaned up: %s; sleep %s", p,
			set.Annotations[api.SleepAnnotation])
	}
}
