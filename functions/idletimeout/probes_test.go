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

// Invariants: I7.
func TestActivity(t *testing.T) {
	sleeping := []build.Option{zero, stopped(), sleep(api.Asleep, build.AsleepFor(30*time.Second))}
	with := func(options ...build.Option) Input { return on(web(options...)) }
	check(t, map[string]Input{
		"the set is used":                            with().withSignal(events.Activity, 0),
		"the set is about to be used":                with().withSignal(events.Wake, 0),
		"the last use is recent: nothing is written": with(build.LastActivity(59*time.Second)).withSignal(events.Activity, 0),
		"the set has no timeout: nothing is written": with(without(api.IdleTimeoutAnnotation)).withSignal(events.Activity, 0),
		"it is not opted in":                         with(optOut).withSignal(events.Activity, 0),
		"a sleeping set is used":                     with(sleeping...).withSignal(events.Activity, 0),
		"a sleeping set was used before its sleep": with(append(sleeping, build.LastActivity(3*time.Hour))...).withSignal(events.Activity,
			time.Hour),
		"a use before the sleep is stored and wakes no set": with(append(sleeping, build.LastActivity(time.Hour))...),
		"the event of that use is repeated": with(append(sleeping, build.LastActivity(time.Hour))...).withSignal(events.Activity,
			time.Hour),
		"the event is older than the stored use: the time only moves later": with(
			append(sleeping, build.LastActivity(time.Hour))...).withSignal(events.Activity, 2*time.Hour),
		"an old event for a running set": with(build.LastActivity(30*time.Minute)).withSignal(events.Activity, time.Hour),
		"the set is paused: the use is stored, and the set stays asleep": with(
			append(sleeping, build.Paused(), build.WithSleep(build.Sleep(api.Asleep, build.SleepCause(idle.RequestPaused),
				build.AsleepFor(time.Hour))))...).withSignal(events.Wake, 0),
		"the set is paused, and the use is stored already": with(zero, stopped(), build.Paused(), build.LastActivity(0),
			build.WithSleep(build.Sleep(api.Asleep, build.SleepCause(idle.RequestPaused),
				build.AsleepFor(time.Hour)))),
		"the last use is unknown: the timeout starts now": with(without(api.LastActivityAnnotation)),
		"the last use of a set at zero is unknown":        with(without(api.LastActivityAnnotation), zero),
	})
	patch := Decide(with(build.LastActivity(90*time.Second)).withSignal(events.Activity, 500*time.Millisecond)).Actions[0]
	if got := patch.Ops[1].Value; got != "2026-03-01T11:59:59Z" {
		t.Errorf("stored as %v", got)
	}
}
