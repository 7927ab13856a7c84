package idletimeout

import (
	"strings"
	"testing"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// Invariants: I7.
func TestInvalidAnnotations(t *testing.T) {
	soon := build.IdleTimeout("soon")
	said := func(options ...func(*api.Sleep)) build.Option {
		text := idle.MemberOf(web(soon)).InvalidMessage()
		return sleep(
			api.Refused,
			append([]func(*api.Sleep){build.SleepEnded(api.RequestInvalid, time.Hour), func(s *api.Sleep) { s.Message = text }},
				options...)...)
	}
	check(t, map[string]Input{
		"the mistake is reported":                                        on(web(soon)),
		"the mistake was reported before":                                on(web(soon, said())),
		"the mistake was reported before, and an activity event arrives": on(web(soon, said())).withSignal(events.Activity, 0),
		"another mistake is reported":                                    on(web(build.IdleTimeout("later"), said())),
		"the time of readiness is kept":                                  on(web(soon, sleep(api.Succeeded, build.ReadyFor(time.Hour)))),
		"the mistake is corrected: the set falls asleep":                 on(web(said())),
		"the mistake is corrected, and the set is in use":                on(web(said(), build.LastActivity(0))),
		"a resize comes first":                                           on(web(soon, build.Status(build.Operation(api.Moving)))),
		"the set is not opted in: nothing is reported":                   on(web(soon, optOut)),
		"a paused set with a mistake stays awake":                        on(web(soon, build.Paused(), said())),
		"the mistake is made during a sleep: the set wakes": on(web(soon, zero, stopped(), sleep(api.Asleep,
			build.AsleepFor(time.Hour)))),
		"the record of the sleep is unreadable": on(web(build.Annotation(api.SleepAnnotation, "{"))),
		"the record of another member is unreadable: only its own event reports it": on(
			web(), member("db", build.Annotation(api.SleepAnnotation, "{"))),
		"the record is unreadable, and the set is not opted in": on(web(optOut, build.Annotation(api.SleepAnnotation, "{}"))),
	})
}

// TestInvalidAnnotationPreventsSleep checks every annotation.
func TestInvalidAnnotationPreventsSleep(t *testing.T) {
	for _, key := range []string{api.PausedAnnotation, api.IdleTimeoutAnnotation, api.LastActivityAnnotation, api.AwakeUntilAnnotation,
		api.KeepWarmAnnotation,
		api.MinUptimeAnnotation, api.DependsOnAnnotation, api.WakeReplicasAnnotation, api.ActivityProbeAnnotation} {
		p := Decide(on(web(build.Annotation(key, "_"))))
		if p.Reason != api.RequestInvalid || p.Announce != events.OperationFailed || !strings.Contains(build.StoredSleep(p).Message, key) {
			t.Errorf("%s: %s", key, p)
		}
	}
}

// TestMistakeInAnnotationsEndsNoSlowStart: the wake-up took longer than its limit, so the set stays awake until it is ready. In
// between, the user makes and corrects a mistake in an annotation.
func TestMistakeInAnnotationsEndsNoSlowStart(t *testing.T) {
	late := build.Sleep(api.Failed, build.SleepStarted(5*time.Hour), build.SleepEnded(api.NotReady, 90*time.Minute),
		func(s *api.Sleep) { s.FailedAt, s.StartsLate = api.Waking, true })
	starting := []build.Option{build.LastActivity(2 * time.Hour), build.ReplicaCounts(3, 0)}
	if p := Decide(on(web(append(starting, build.WithSleep(late))...))); p.Kind != plan.KindNoop || p.Reason != api.NotIdle {
		t.Fatalf("before the mistake: %s", p)
	}
	refused := build.StoredSleep(Decide(on(web(append(starting, build.WithSleep(late), build.Annotation(api.KeepWarmAnnotation, "x"))...))))
	if refused == nil || refused.Phase != api.Refused {
		t.Fatalf("with the mistake: %s", build.Words(refused))
	}
	if p := Decide(on(web(append(starting, build.WithSleep(refused))...))); p.Reason == api.SleepDecided {
		t.Errorf("after the correction, a set that is starting falls asleep: %s", p)
	}
}

// TestCorrectedSetFallsAsleepAtOnce: before the correction was stored, a corrected mistake delayed no sleep.
func TestCorrectedSetFallsAsleepAtOnce(t *testing.T) {
	refused := build.Sleep(api.Refused, build.SleepEnded(api.RequestInvalid, time.Minute))
	used := build.LastActivity(0)
	corrected := build.StoredSleep(Decide(on(web(build.WithSleep(refused), used))))
	if corrected == nil || corrected.Reason != api.CauseGone {
		t.Fatalf("%s", build.Words(corrected))
	}
	asked := build.Annotation(api.SleepRequestedAnnotation, idle.FormatTime(build.Now))
	old := build.LastActivity(5 * time.Second)
	if p := Decide(on(web(build.WithSleep(refused), old, asked))); p.Reason != api.SleepDecided {
		t.Fatalf("the test is wrong: without the stored correction: %s", p)
	}
	if p := Decide(on(web(build.WithSleep(corrected), old, asked))); p.Reason != api.SleepDecided {
		t.Errorf("the user requests a sleep after the correction: %s", p)
	}
}

// TestRemovedProbeEndsRefusal: the sleep was refused because the probe failed. The user removes the probe; the set is in use.
func TestRemovedProbeEndsRefusal(t *testing.T) {
	refused := build.WithSleep(build.Sleep(api.Refused, func(s *api.Sleep) {
		s.Step, s.Reason, s.Finished = api.AwaitsProbe, api.ProbeFailed, operation.Moment(build.Now.Add(-48*time.Hour))
	}))
	set := web(refused, build.LastActivity(time.Minute), build.ReplicaCounts(3, 3))
	p := Decide(on(set))
	if r := operation.Of(set); p.Kind != plan.KindDo && !r.Settled(r.Sleep) {
		t.Errorf("%s: the refusal counts as long as the set is in use", p)
	}
}

// TestSetThatStartsSlowlyStaysAwake: the wake-up took longer than its time limit, so its sleep failed. The set stays awake until it is
// ready, and then for its idle timeout.
func TestSetThatStartsSlowlyStaysAwake(t *testing.T) {
	late := build.Sleep(api.Failed, build.SleepStarted(5*time.Hour), build.SleepEnded(api.NotReady, 50*time.Minute),
		func(s *api.Sleep) { s.FailedAt, s.StartsLate = api.Waking, true })
	used := build.LastActivity(80 * time.Minute)
	starting := web(build.WithSleep(late), used, build.ReplicaCounts(3, 0))
	if p := Decide(on(starting)); p.Kind != plan.KindNoop || p.Reason != api.NotIdle {
		t.Errorf("while it starts: %s", p)
	}
	asked := build.Annotation(api.SleepRequestedAnnotation, idle.FormatTime(build.Now.Add(-time.Minute)))
	if p := Decide(on(build.With(starting, asked))); p.Reason == api.NotIdle {
		t.Errorf("a user's request after the failure has no effect: %s", p)
	}
	ready := web(build.WithSleep(late), used)
	if functions := idle.Concerned(operation.Change{Set: ready, Records: operation.Of(ready), Now: build.Now}); len(functions) != 1 {
		t.Errorf("the event about the ready set concerns %v", functions)
	}
	record := build.StoredSleep(Decide(on(ready)))
	if record == nil || record.ReadyAt == nil || record.Phase != api.Failed {
		t.Fatalf("the set is ready: %s", build.Words(record))
	}
	if p := Decide(on(web(build.WithSleep(record), used))); p.Kind != plan.KindNoop || p.Reason != api.NotIdle {
		t.Errorf("as soon as it is ready: %s", p)
	}
	if set := web(build.WithSleep(record), used); !operation.Of(set).Settled(operation.Of(set).Sleep) {
		t.Error("the set is ready, and its failure still counts")
	}
}

// TestReadyInTheSecondOfTheFailure: the set becomes ready in the same second as its wake-up failed.
func TestReadyInTheSecondOfTheFailure(t *testing.T) {
	failed := build.Sleep(api.Failed, func(s *api.Sleep) {
		s.Reason, s.FailedAt, s.StartsLate, s.Finished = api.NotReady, api.Waking, true, operation.Moment(build.Now)
	})
	set := web(build.WithSleep(failed), build.ReplicaCounts(3, 3))
	in := on(set)
	in.Now = build.Now.Add(300 * time.Millisecond)
	p := Decide(in)
	s := build.StoredSleep(p)
	if s == nil {
		t.Fatalf("%s", p)
	}
	set = web(build.WithSleep(s), build.ReplicaCounts(3, 3))
	if r := operation.Of(set); !r.Settled(r.Sleep) {
		t.Errorf("the alert DrydockOperationFailed never ends: %s, late %t", build.Words(r.Sleep), r.Sleep.StartsLate)
	}
}

// TestReadinessKeepsRefusalOfSleep: a wake-up failed, then a user requested a sleep, which pause-owner refused. The set becomes ready,
// which has nothing to do with the refusal.
func TestReadinessKeepsRefusalOfSleep(t *testing.T) {
	refused := build.Sleep(api.Refused, build.SleepStarted(time.Hour), func(s *api.Sleep) {
		s.Step, s.Reason, s.Message = api.AwaitsOwner, api.OwnerNotPausable, "its operator cannot be paused"
		s.Finished, s.StartsLate = operation.Moment(build.Now), true
	})
	p := Decide(on(web(build.WithSleep(refused))))
	if s := build.StoredSleep(p); s == nil || s.Reason != api.OwnerNotPausable || s.StartsLate {
		t.Errorf("%s: %s", p, build.Words(s))
	}
}

// TestSleepOfAFastClockWakesWithActivity: a process whose clock was thirty days ahead has begun the sleep.
func TestSleepOfAFastClockWakesWithActivity(t *testing.T) {
	set := web(zero, build.LastActivity(time.Hour), build.WithSleep(build.Sleep(api.Asleep, build.AsleepFor(time.Hour),
		build.SleepStarted(-30*24*time.Hour))))
	if found := idle.Concerned(operation.Change{Set: set, Records: operation.Of(set), Now: build.Now, Swept: true}); len(found) == 0 {
		t.Error("the sweep does not find the set")
	}
	for range 4 {
		p := Decide(on(set).withSignal(events.Activity, 0))
		for _, a := range p.Actions {
			for _, op := range a.Ops {
				if text, ok := op.Value.(string); ok && strings.HasPrefix(op.Path, "/metadata/annotations/") {
					build.Annotation(strings.ReplaceAll(strings.TrimPrefix(op.Path, "/metadata/annotations/"), "~1", "/"), text)(set)
				}
			}
		}
		if s := build.StoredSleep(p); s != nil && s.Phase == api.Waking {
			return
		}
	}
	t.Errorf("the set stays at zero for thirty days: %s", build.Words(idle.MemberOf(set).Sleep))
}

// TestLostSleep: a set is stopped for a sleep that its annotations no longer have, for example because a manifest has replaced them. It
// gets the record of its wake-up, so that its pods come back and it counts as used.
// Invariants: I4.
func TestLostSleep(t *testing.T) {
	former := sleep(api.Succeeded, func(s *api.Sleep) { s.Operation, s.Attempt = "000000000000", 4 })
	check(t, map[string]Input{
		"it has lost the record":                on(web(zero, stopped())),
		"it has the record of an earlier sleep": on(web(zero, stopped(), former)),
		"it has lost the record, and depends on another": on(web(zero, stopped(), shop, build.DependsOn("db")),
			member("db", shop, build.LastActivity(0), build.ReplicaCounts(3, 0))),
		"it has lost the record, and an annotation is wrong": on(web(zero, stopped(), build.IdleTimeout("soon"))),
		"it has the record":                            on(web(zero, stopped(), sleep(api.Asleep, build.AsleepFor(time.Hour)))),
		"it has lost the record, and is opted out":     on(web(zero, stopped(), optOut)),
		"it has lost the record, and runs":             on(web(stopped())),
		"it has lost the record, and is being deleted": on(web(zero, stopped(), build.Deleting())),
		"its pods were asked back":                     on(web(zero, stopped(build.StartedFor(time.Second)))),
	})
}
