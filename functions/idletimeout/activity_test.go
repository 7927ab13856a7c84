package idletimeout

import (
	"testing"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/idle"
	"drydock.dev/test/kit/build"
)

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
