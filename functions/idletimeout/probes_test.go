package idletimeout

import (
	"errors"
	"strings"
	"testing"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/operation"
	"drydock.dev/test/kit/build"
)

func TestProbeResults(t *testing.T) {
	down := ProbeResult{Err: errors.New("no route to host")}
	resting := sleep(api.Refused, build.SleepEnded(api.ProbeFailed, time.Minute))
	check(t, map[string]Input{
		"the probe says idle":                              on(web(probed)).withProbe("web", ProbeResult{}),
		"the probe says in use":                            on(web(probed)).withProbe("web", ProbeResult{Active: true}),
		"the probe fails":                                  on(web(probed)).withProbe("web", down),
		"the probe was not asked":                          on(web(probed)),
		"the probe failed recently":                        on(web(probed, resting)),
		"the user paused the set: the probe is not needed": on(web(probed, build.Paused())),
		"the probe of another member says in use": on(web(shop), member("db", shop, probed)).withProbe("db",
			ProbeResult{Active: true}),
		"the probe of another member fails":                                  on(web(shop), member("db", shop, probed)).withProbe("db", down),
		"the probe of another member failed recently: the group stays awake": on(web(shop), member("db", shop, probed, resting)),
		"a member at zero is not asked":                                      on(web(shop), member("db", shop, probed, zero)),
		"a member that sleeps is not asked": on(
			web(shop), member("db", shop, probed, zero, stopped(), sleep(api.Asleep, build.AsleepFor(time.Hour)))),
		"the probe fails again after a retry: the annotation is removed": on(web(probed, resting, retry)).withProbe("web", down),
		"the probe says idle after a retry":                              on(web(probed, resting, retry)).withProbe("web", ProbeResult{}),
		"the time of readiness is kept": on(web(probed, sleep(api.Succeeded, build.ReadyFor(2*time.Hour)))).withProbe("web",
			down),
	})
}

func TestMembersToProbe(t *testing.T) {
	for name, row := range map[string]struct {
		in   Input
		want string
	}{
		"a set with a probe":        {on(web(probed)), "web"},
		"a set without a probe":     {on(web()), ""},
		"the set is in use":         {on(web(probed, build.LastActivity(0))), ""},
		"another member is in use":  {on(web(probed), member("db", build.LastActivity(0))), ""},
		"a group with two probes":   {on(web(probed), member("db", probed), member("queue")), "db web"},
		"the set is paused":         {on(web(probed, build.Paused())), ""},
		"a sleep is requested":      {on(web(probed)).withSignal(events.Sleep, 0), ""},
		"the set is asleep":         {on(web(probed, zero, stopped(), sleep(api.Asleep, build.AsleepFor(time.Hour)))), ""},
		"the set is at zero":        {on(web(probed, zero)), ""},
		"the set is not opted in":   {on(web(probed, optOut)), ""},
		"the probe failed recently": {on(web(probed, sleep(api.Refused, build.SleepEnded(api.ProbeFailed, time.Minute)))), ""},
		"the probe failed long ago": {on(web(probed, sleep(api.Refused, build.SleepEnded(api.ProbeFailed, time.Hour)))), "web"},
		"the probe failed recently, and the set has the retry annotation": {
			on(web(probed, retry, sleep(api.Refused, build.SleepEnded(api.ProbeFailed, time.Minute)))), "web"},
		"the probe failed recently, and a retry event arrives": {
			on(web(probed, sleep(api.Refused, build.SleepEnded(api.ProbeFailed, time.Minute)))).withSignal(events.Retry, 0), "web"},
		"another annotation is invalid":         {on(web(probed, build.DependsOn("x"))), ""},
		"the record of the sleep is unreadable": {on(web(probed, build.Annotation(api.SleepAnnotation, "{"))), ""},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, m := range row.in.membersToProbe() {
				got = append(got, m.Set.Name)
			}
			if strings.Join(got, " ") != row.want {
				t.Errorf("%v", got)
			}
		})
	}
}

// TestPausedSetWithProbeKeepsNoOtherSetAwake: docs/sleep.md: "A paused set sleeps alone. The other sets do not wait for it."
func TestPausedSetWithProbeKeepsNoOtherSetAwake(t *testing.T) {
	refused := build.Sleep(api.Refused, build.SleepCause(idle.RequestPaused), build.SleepEnded(api.OwnerNotPausable, time.Minute))
	without := on(web(shop), member("db", shop, build.Paused(), build.WithSleep(refused)))
	if p := Decide(without); p.Reason != api.SleepDecided {
		t.Fatalf("control: %s", p)
	}
	in := on(web(shop), member("db", shop, build.Paused(), probed, build.WithSleep(refused)))
	if p := Decide(in); p.Reason != api.SleepDecided {
		t.Errorf("db is paused, and its probe keeps web awake: %s", p)
	}
}

// TestLaterMembersOfGroupAreProbed: visitors kept a group awake after the request for its sleep. The probes found no use when web fell
// asleep, which depends on db. Its pods need 20 minutes to end, and a client connects to db in that time.
func TestLaterMembersOfGroupAreProbed(t *testing.T) {
	requested := build.Annotation(api.SleepRequestedAnnotation, build.Now.Add(-2*time.Hour).Format(time.RFC3339))
	options := []build.Option{shop, build.DependsOn("db"), build.LastActivity(3 * time.Hour), requested, build.AwakeFor(-30 * time.Minute)}
	db := member("db", shop, probed, build.LastActivity(3*time.Hour))
	record := build.StoredSleep(Decide(on(web(options...), db).withProbe("db", ProbeResult{})))
	if record == nil || record.Request != idle.RequestAsked {
		t.Fatalf("web does not fall asleep: %s", build.Words(record))
	}
	record.Phase, record.PodsGoneAt = api.Asleep, &record.Started
	in := on(db, web(append(options, zero, build.WithSleep(record))...))
	in.Now = in.Now.Add(20 * time.Minute)
	if p := Decide(in); len(in.membersToProbe()) != 1 || p.Reason == api.SleepDecided {
		t.Errorf("no probe is asked, and db falls asleep: %s", p)
	}
}

// TestRecoveredProbeEndsRefusal: the probe failed once, and the set was refused its sleep. Now the probe answers, and the set is in use for
// weeks. DrydockOperationRefused fires as long as the set is not idle.
func TestRecoveredProbeEndsRefusal(t *testing.T) {
	refused := sleep(api.Refused, build.SleepEnded(api.ProbeFailed, time.Hour))
	used := web(refused, probed)
	for range 3 {
		next := build.StoredSleep(Decide(on(used).withProbe("web", ProbeResult{Active: true})))
		if next != nil {
			used = web(build.WithSleep(next), probed)
		} else {
			used = build.With(used, build.LastActivity(0))
		}
	}
	if records := operation.Of(used); !records.Settled(records.Sleep) {
		t.Errorf("the probe finds the set in use, and its failure of an hour ago still counts: %s", build.Words(records.Sleep))
	}
}
