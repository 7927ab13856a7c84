package cleanuppod

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/functions/pauseowner"
	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// TestScaleDownBeforeRefusedSleep: the user scales web down from three to two while its sleep is planned. Drydock refuses the sleep,
// because it knows no pause and no stop for the owner, so its operator has stopped nothing.
func TestScaleDownBeforeRefusedSleep(t *testing.T) {
	set := web(build.Replicas(2), build.ReplicaCounts(2, 2), build.ControlledBy("Database", "main"), build.IdleTimeout("1h"),
		build.LastActivity(9*time.Hour), settledRecord(3), build.WithSleep(build.Sleep(api.Planned, build.SleepDue(time.Minute))))
	owner := pauseowner.Owner{Ref: metav1.OwnerReference{Kind: "Database", Name: "main"}, Problem: "its kind is unknown"}
	p := pauseowner.Decide(pauseowner.Input{Observed: build.World(set), Namespace: build.Namespace, Settings: build.SleepSettings(),
		Owners: []pauseowner.Owner{owner}})
	t.Logf("%s", p)
	set = afterPlan(set, p)
	for range 3 {
		p := idleTimeout(build.Now, "web", set)
		t.Logf("%s", p)
		set = afterPlan(set, p)
	}
	lists := read(set, usedClaim("data-web-0"), usedClaim("data-web-1"), usedClaim("data-web-2"), replica(0), replica(1))
	in := observed(t, lists)
	if p := Decide(in); p.Reason != api.CleanupStarted || p.Kind != plan.KindDo {
		t.Errorf("the claim of web-2 is never cleaned up: %s; sleep %s", p, set.Annotations[api.SleepAnnotation])
	}
}
