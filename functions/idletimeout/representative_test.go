package idletimeout

import (
	"strings"
	"testing"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/test/kit/build"
)

// TestGroupWakeReachesSleepingMember: the first member of the group is at zero by another client. A wake order for the group must
// still wake the members that sleep.
func TestGroupWakeReachesSleepingMember(t *testing.T) {
	e, err := events.NewForGroup(events.Wake, build.Namespace, "shop", "1")
	if err != nil {
		t.Fatal(err)
	}
	e.SetTime(time.Now())
	cluster := newCluster(t,
		member("db", shop, build.Replicas(0)), // scaled to zero by its user
		web(shop, build.Replicas(0), sleep(api.Asleep, justNow)))
	handle(t, cluster.function(build.SleepSettings()), e)
	if got := strings.Join(cluster.writes, ", "); !strings.Contains(got, "web") {
		t.Errorf("the wake order for the group wrote only %q: web stays asleep", got)
	}
}

// TestGroupActivityKeepsRunningMemberAwake: the same group. An activity of the group must keep the running member awake.
func TestGroupActivityKeepsRunningMemberAwake(t *testing.T) {
	e, err := events.NewForGroup(events.Activity, build.Namespace, "shop", "1")
	if err != nil {
		t.Fatal(err)
	}
	e.SetTime(time.Now())
	cluster := newCluster(t, member("db", shop, build.Replicas(0)), staleWeb(shop))
	answer := handle(t, cluster.function(build.SleepSettings()), e)
	handle(t, cluster.function(build.SleepSettings()), newEvent(events.ObjectChanged, "2", time.Now(), aboutWeb)) // the tick
	if record, err := api.LoadSleep(cluster.set("web")); err != nil || record.Active() {
		t.Errorf("the group is in use, and web begins to sleep: answer %q, writes %v, %v", answer, cluster.writes, err)
	}
}
