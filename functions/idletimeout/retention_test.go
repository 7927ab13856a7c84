package idletimeout

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/operation"
	"drydock.dev/test/kit/build"
)

// TestSleepEndsIfPolicyForbidsDelete: an admission policy forbids whenScaled Delete since the sleep began. The set is awake and
// ready. Its owner stays paused until the sleep ends.
func TestSleepEndsIfPolicyForbidsDelete(t *testing.T) {
	waking := build.WithSleep(build.Sleep(api.Waking, justNow, build.ScaledDown(time.Hour), build.OriginalWhenScaled("Delete"),
		build.SleepReason(api.WakingUp, "the set is needed")))
	for name, set := range map[string]*appsv1.StatefulSet{
		"the policy came during the sleep": staleWeb(build.WhenScaled("Retain"), waking),
		"a user aborts the sleep":          staleWeb(build.WhenScaled("Retain"), waking, abort),
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, set)
			c.refuse = `"value":"Delete"`
			f := c.function(build.SleepSettings())
			for i := range 6 {
				handle(t, f, newEvent(events.ObjectChanged, fmt.Sprint(i), time.Now(), aboutWeb))
			}
			m := idle.MemberOf(c.set("web"))
			if m.Sleep.Active() || m.Sleep.WhenScaled != "" {
				t.Errorf("the sleep does not end, or the rejected write will be repeated: %s", build.Words(m.Sleep))
			}
		})
	}
}

// TestRejectedRetentionIsNoFailedWakeUp: a policy forbids whenScaled Delete since the sleep began. The set has all its replicas, and they
// are ready.
func TestRejectedRetentionIsNoFailedWakeUp(t *testing.T) {
	waking := build.WithSleep(build.Sleep(api.Waking, justNow, build.ScaledDown(time.Hour), build.OriginalWhenScaled("Delete"),
		build.SleepReason(api.WakingUp, "the set is needed")))
	c := newCluster(t, staleWeb(build.WhenScaled("Retain"), waking))
	c.refuse = `"value":"Delete"`
	f := c.function(build.SleepSettings())
	for i := range 6 {
		handle(t, f, newEvent(events.ObjectChanged, fmt.Sprint(i), time.Now(), aboutWeb))
	}
	set := c.set("web")
	s := idle.MemberOf(set).Sleep
	if r := operation.Of(set); s.Phase != api.Succeeded || !r.Settled(s) {
		t.Errorf("the set is awake and ready, and its sleep ends as %s %s, settled %t: %s", s.Phase, s.Reason, r.Settled(s), s.Message)
	}
}
