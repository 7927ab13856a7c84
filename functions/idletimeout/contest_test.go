package idletimeout

import (
	"strings"
	"testing"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/idle"
	"drydock.dev/test/kit/build"
)

// TestSecondSleepEndedByTheSameFieldManagerFails: if one field manager ends several short sleeps in a row by scaling the set up, the
// second and all later ones fail.
func TestSecondSleepEndedByTheSameFieldManagerFails(t *testing.T) {
	before := func(manager string, starts int) func(*api.Sleep) {
		return func(s *api.Sleep) { s.StartedBy, s.Starts = manager, starts }
	}
	for name, row := range map[string]struct {
		manager string
		slept   time.Duration
		before  func(*api.Sleep)
		starts  int
		rest    string
	}{
		"the first time":                         {"argocd-controller", time.Minute, before("", 0), 1, ""},
		"again":                                  {"argocd-controller", time.Minute, before("argocd-controller", 1), 2, "26m0s"},
		"a third time":                           {"argocd-controller", time.Minute, before("argocd-controller", 2), 3, "52m0s"},
		"many times":                             {"argocd-controller", time.Minute, before("argocd-controller", 1000), 1001, "24h0m0s"},
		"another client":                         {"kubectl", time.Minute, before("argocd-controller", 2), 1, ""},
		"a user starts the set the next morning": {"kubectl", 9 * time.Hour, before("kubectl", 4), 1, ""},
		"a client without a name, again":         {"", time.Minute, before("", 1), 2, "26m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			in := on(web(build.Replicas(2), replicasWrittenBy(row.manager), sleep(api.Asleep, build.AsleepFor(row.slept), row.before)))
			next := build.StoredSleep(Decide(in))
			if next.Phase != api.Waking || next.Reason != api.StartedByOthers || next.Starts != row.starts || next.StartedBy != row.manager {
				t.Errorf("%s %s, started %d times by %q", next.Phase, next.Reason, next.Starts, next.StartedBy)
			}
			if failed := next.FailedAt != ""; failed != (row.rest != "") || failed &&
				(!strings.Contains(next.Message, row.rest) || !strings.Contains(next.Message, "Git")) {
				t.Errorf("failed %v: %s", failed, next.Message)
			}
		})
	}
}

// TestStartCountIsResetAfterSuccessfulSleep: a successful sleep resets the count. After a failed sleep, the next sleep keeps it.
func TestStartCountIsResetAfterSuccessfulSleep(t *testing.T) {
	contested := func(s *api.Sleep) { s.StartedBy, s.Starts = "argocd-controller", 3 }
	ended := build.SleepEnded(api.StartedByOthers, 48*time.Hour)
	if next := build.StoredSleep(Decide(on(web(sleep(api.Failed, ended, contested))))); next.Phase != api.Planned || next.Starts != 3 ||
		next.StartedBy != "argocd-controller" {
		t.Errorf("the next sleep is %+v", next)
	}
	waking := sleep(api.Waking, build.AsleepFor(time.Hour), due, build.SleepReason(api.WakingUp, "web was active"), contested)
	if next := build.StoredSleep(Decide(on(web(waking)))); next.Phase != api.Succeeded || next.Starts != 0 || next.StartedBy != "" {
		t.Errorf("the successful sleep is %+v", next)
	}
}

// TestContestedSleepBacksOffLonger: after the second start by the same client, the set backs off for 26 minutes, as the message says.
func TestContestedSleepBacksOffLonger(t *testing.T) {
	for ago, backsOff := range map[time.Duration]bool{25 * time.Minute: true, 27 * time.Minute: false} {
		m := idle.MemberOf(web(sleep(api.Failed, build.SleepEnded(api.StartedByOthers, ago), func(s *api.Sleep) { s.Starts = 2 })))
		if got := m.IsBackingOff(idle.Verdict{Request: idle.RequestIdle}, build.Now, 13*time.Minute); got != backsOff {
			t.Errorf("after %s it backs off: %v", ago, got)
		}
	}
}
