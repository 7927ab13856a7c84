package idletimeout

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
	"drydock.dev/test/kit/build"
)

// TestWaking: the set has its replicas back. The sleep waits until they are ready.
// Invariants: I1, I8.
func TestWaking(t *testing.T) {
	type edits = []func(*api.Sleep)
	with := func(phase edits, options ...build.Option) Input {
		all := append(edits{build.AsleepFor(time.Hour), due, build.SleepReason(api.WakingUp, "web was active")}, phase...)
		return on(web(append([]build.Option{sleep(api.Waking, all...), stopped(build.StartedFor(30 * time.Second))}, options...)...))
	}
	late := build.SleepDue(-time.Second)
	given := func(s *api.Sleep) { s.FailedAt, s.Reason, s.Message = api.Stopping, api.Aborted, "it could not be" }
	check(t, map[string]Input{
		"replicas are starting":                             with(nil, build.ReplicaCounts(2, 1)),
		"all are ready":                                     with(nil),
		"the set was scaled down and is ready":              with(nil, build.Replicas(2)),
		"the user aborts a sleep that is ending":            with(nil, abort),
		"the set is no longer opted in":                     with(nil, optOut),
		"the set was paused while it wakes: it wakes first": with(nil, build.Paused()),
		"another client started the set": with(edits{build.SleepReason(api.StartedByOthers, "kubectl scaled it"),
			build.Starts(1)}),
		"the rejection of its start is over":            with(edits{build.SleepReason(api.StartRefused, "quota exceeded")}),
		"ready when the deadline passed":                with(edits{late}),
		"the set does not become ready in time":         with(edits{late}, build.ReplicaCounts(3, 2)),
		"a failed sleep ends, and the set is ready":     with(edits{given}),
		"a failed sleep ends, and the set is not ready": with(edits{late, given}, build.ReplicaCounts(3, 2)),
	})
}

// TestWakingAtZero: scale asks the pods of a waking set back, once. A set that is at zero afterwards was scaled to zero by another
// client, and stays there.
// Invariants: I4, I8.
func TestWakingAtZero(t *testing.T) {
	type edits = []func(*api.Sleep)
	began := func(s *api.Sleep) { s.WakingAt = operation.Moment(build.Now.Add(-time.Minute)) }
	waking := func(more edits, options ...build.Option) Input {
		all := append(edits{build.AsleepFor(time.Hour), due, build.SleepReason(api.WakingUp, "web was active"), began}, more...)
		return on(web(append([]build.Option{zero, sleep(api.Waking, all...), replicasWrittenBy("kubectl")}, options...)...))
	}
	late, ending := build.SleepDue(-time.Second), build.ReplicaCounts(2, 2)
	started, refused := stopped(build.StartedFor(30*time.Second)), stopped(build.RefusedBy("quota exceeded"))
	withoutStop := func(s *api.Sleep) { s.WakingAt, s.PodsGoneAt = nil, nil }
	noted := func(why string) func(*api.Sleep) {
		return build.SleepReason(api.StartRefused, fmt.Sprintf("the API server rejected 3 replicas: %s. Remove the cause, or scale the set "+
			"yourself; the next try is 13m0s later", why))
	}
	check(t, map[string]Input{
		"its pods have not been asked back yet":                            waking(nil, stopped()),
		"its pods are asked back late":                                     waking(edits{late}, stopped()),
		"its last pods end, and they have not been asked back yet":         waking(nil, stopped(), ending),
		"its pods were asked back, and it is at zero":                      waking(nil, started),
		"its pods were asked back, and it is at zero, and pods end":        waking(nil, started, ending),
		"its pods were asked back, and it is at zero, and pods never end":  waking(edits{late}, started, ending),
		"the API server has rejected its replicas":                         waking(nil, refused),
		"the API server has rejected its replicas, which is noted":         waking(edits{noted("quota exceeded")}, refused),
		"the API server has rejected its replicas for another reason":      waking(edits{noted("webhook denied")}, refused),
		"the API server rejects its replicas for longer than its time":     waking(edits{late, noted("quota exceeded")}, refused),
		"it began with the wake-up, and its pods have yet to be asked for": waking(edits{withoutStop}),
		"it began with the wake-up, and is at zero again": waking(edits{withoutStop}, stopped(build.NotStopped(),
			build.StartedFor(30*time.Second))),
		"the API server had rejected its stop, and another client scaled it to zero": waking(nil,
			stopped(build.NotStopped(), build.RefusedBy("webhook denied"))),
		"the user aborts it":            waking(nil, stopped(), abort),
		"the set is no longer opted in": waking(nil, stopped(), optOut),
	})
}

// TestAwaitOwner: the operator that stopped the set has to start it. If it does not, scale restores the replicas once. A set that is
// at zero afterwards was scaled to zero by its operator.
// Invariants: I4, I8.
func TestAwaitOwner(t *testing.T) {
	type edits = []func(*api.Sleep)
	with := func(more edits, options ...build.Option) Input {
		all := append(edits{build.AsleepFor(time.Hour), build.OwnerStops(), due, build.SleepReason(api.WakingUp, "web was active"),
			func(s *api.Sleep) { s.WakingAt = operation.Moment(build.Now.Add(-time.Minute)) }}, more...)
		stopped := []build.Option{zero, build.ControlledBy("Database", "main"), replicasWrittenBy("db-operator"), sleep(api.Waking, all...)}
		return on(web(append(stopped, options...)...))
	}
	late, ending, forOwner := build.SleepDue(-time.Second), build.ReplicaCounts(2, 2), build.SleepReason(api.OwnerAway, "its operator is away")
	started := stopped(build.NotStopped(), build.StartedFor(30*time.Second))
	refused := stopped(build.NotStopped(), build.RefusedBy("quota exceeded"))
	stuck := func(s *api.Sleep) { s.OwnerProblem = `Database main stays paused: databases "main" is forbidden` }
	check(t, map[string]Input{
		"the operator has time left":                               with(nil),
		"the operator did not start the set in time":               with(edits{late}),
		"the operator started the set in time":                     with(edits{late}, build.Replicas(3)),
		"the operator has started one of three members":            with(nil, build.Replicas(1)),
		"the operator has started only one member in time":         with(edits{late}, build.Replicas(1)),
		"Drydock restores its replicas, which has yet to be done":  with(edits{forOwner}),
		"Drydock restores its replicas, which is done late":        with(edits{forOwner, late}),
		"Drydock restored its replicas, and they start":            with(edits{forOwner}, started, build.Replicas(3), build.ReplicaCounts(3, 1)),
		"Drydock restored its replicas, and they are ready":        with(edits{forOwner}, started, build.Replicas(3)),
		"its operator scales it to zero again":                     with(edits{forOwner}, started, ending),
		"its operator scales it to zero again, and pods never end": with(edits{forOwner, late}, started, ending),
		"its operator scaled it to zero again":                     with(edits{forOwner}, started),
		"its operator obeys a stop that Drydock cannot end":        with(edits{forOwner, stuck}, started),
		"the API server has rejected its replicas":                 with(edits{forOwner}, refused),
	})
}

// TestRejectedStartIsTriedAgain: while the API server rejects the replicas, the sleep stays, and says so once for each cause. The set
// starts when the cause is gone, whoever has stopped it.
// Invariants: I8.
func TestRejectedStartIsTriedAgain(t *testing.T) {
	asleep := func(options ...func(*api.Sleep)) build.Option {
		return sleep(api.Asleep, append(options, build.AsleepFor(time.Hour))...)
	}
	for name, set := range map[string]*appsv1.StatefulSet{
		"scale has stopped it": web(zero, build.LastActivity(0), stopped(), asleep()),
		"its operator has stopped it": web(zero, build.LastActivity(0), asleep(build.OwnerStops()),
			build.ControlledBy("Database", "main")),
		"another client has scaled it to zero": web(zero, build.AwakeFor(48*time.Hour),
			build.Annotation(api.WakeReplicasAnnotation, "3")),
	} {
		t.Run(name, func(t *testing.T) {
			s := simulation{t: t, now: build.Now, rejection: "quota exceeded", sets: []*appsv1.StatefulSet{set}}
			s.runUntil(24*time.Hour, func() bool { return false })
			if record := s.sleepOf("web"); record.Phase != api.Waking || record.Reason != api.StartRefused {
				t.Fatalf("%s:\n%s", build.Words(record), strings.Join(s.log, "\n"))
			}
			said := 0
			for _, line := range s.log {
				if strings.Contains(line, ": do "+string(api.StartRefused)) {
					said++
				}
			}
			if said != 1 {
				t.Errorf("idle-timeout has noted the rejection %d times:\n%s", said, strings.Join(s.log, "\n"))
			}
			s.rejection = ""
			s.runUntil(time.Hour, func() bool { return !s.sleepOf("web").Active() })
			record := s.sleepOf("web")
			if record.Phase != api.Succeeded || statefulset.Replicas(s.sets[0]) != 3 || strings.Contains(record.Message, "rejected") {
				t.Errorf("%d replicas, %s:\n%s", statefulset.Replicas(s.sets[0]), build.Words(record), strings.Join(s.log, "\n"))
			}
		})
	}
}

// TestLongRejectionKeepsRecordReadable: an admission webhook rejects writes with a long message, such as a list of all violated rules.
// LoadSleep reads at most 32 KiB, and no function works on a set whose record cannot be read: it stays at zero.
func TestLongRejectionKeepsRecordReadable(t *testing.T) {
	why := build.RefusedBy(strings.Repeat("x", 15<<10))
	for name, set := range map[string]*appsv1.StatefulSet{
		"the wake-up of a set at zero is rejected": web(zero, build.LastActivity(0), stopped(why),
			sleep(api.Waking, due, func(s *api.Sleep) { s.WakingAt = operation.Moment(build.Now) })),
		"the scale-down is rejected, and the message is in the record twice": web(sleep(api.Stopping, due), stopped(build.NotStopped(), why)),
	} {
		p := Decide(on(set))
		next := build.StoredSleep(p) // it reads the record as the functions do
		if next == nil || !strings.Contains(next.Message, "xxx") {
			t.Errorf("%s: no record with the rejection is stored, or it cannot be read: %.300s", name, p)
			continue
		}
		if again := Decide(on(build.With(set, build.WithSleep(next)))); build.StoredSleep(again) != nil && next.Reason == api.StartRefused {
			t.Errorf("%s: it is noted again: %.300s", name, again)
		}
	}
}

// TestFailedSleepRecordsWhenSetWasReady: the pods were restarted, so the minimum uptime starts again.
func TestFailedSleepRecordsWhenSetWasReady(t *testing.T) {
	p := Decide(on(web(sleep(api.Waking, build.AsleepFor(time.Hour), due, func(s *api.Sleep) { s.FailedAt = api.Stopping }))))
	if sleep := build.StoredSleep(p); sleep.Phase != api.Failed || sleep.ReadyAt == nil || !sleep.ReadyAt.Time.Equal(build.Now) {
		t.Errorf("%s", build.Words(sleep))
	}
}

// TestSetStartsEventuallyWithoutItsOperator: even if the operator does nothing, the set starts and the sleep ends.
func TestSetStartsEventuallyWithoutItsOperator(t *testing.T) {
	s := simulation{t: t, now: build.Now, sets: []*appsv1.StatefulSet{
		web(
			zero,
			build.ControlledBy("PostgresCluster", "main"),
			build.LastActivity(0),
			sleep(api.Asleep, build.AsleepFor(time.Hour), build.OwnerStops()),
		)}}
	s.runUntil(2*time.Hour, func() bool { return !s.sleepOf("web").Active() })
	if sleep := s.sleepOf("web"); sleep.Phase != api.Succeeded || statefulset.Replicas(s.sets[0]) != 3 {
		t.Errorf("%d replicas, %s %s\n%s", statefulset.Replicas(s.sets[0]), sleep.Phase, sleep.Message, strings.Join(s.log, "\n"))
	}
}

// TestWakeUpEndsIfTheOperatorKeepsTheSetStopped: an operator has stopped a set for its sleep. It wakes, pause-owner ends the stop, and
// before the set is ready, a user stops the database in its custom resource. Drydock restores the replicas once, because the operator may
// be away. The operator scales the set to zero again, as its user wants. The wake-up must end then, and not start the pods every half
// hour for good.
func TestWakeUpEndsIfTheOperatorKeepsTheSetStopped(t *testing.T) {
	for name, option := range map[string]build.Option{
		"opted in": build.Annotation("example.com/x", "y"), "the user has opted it out, too": optOut,
		"the user has written abort, too": build.Annotation(api.AbortAnnotation, "now"),
	} {
		t.Run(name, func(t *testing.T) {
			waking := sleep(api.Waking, due, build.OwnerStops(), build.AsleepFor(time.Hour))
			s := simulation{t: t, now: build.Now, sets: []*appsv1.StatefulSet{web(zero, build.ReplicaCounts(0, 0),
				build.ControlledBy("Database", "main"), waking, option,
				build.Label("broken", "true"))}} // its pods need some seconds to become ready
			starts := 0
			for range 24 * 60 {
				s.step("web")
				if statefulset.Replicas(s.sets[0]) > 0 {
					starts++
					s.sets[0] = build.With(s.sets[0], zero, build.ReplicaCounts(0, 0)) // the operator obeys its user
				}
				s.now = s.now.Add(time.Minute)
			}
			if record := s.sleepOf("web"); starts > 1 || record.Active() {
				t.Errorf("in a day, the pods were started %d times; %s", starts, build.Words(record))
			}
		})
	}
}

// TestStuckStopIsNoSuccess: an operator has stopped a set for its sleep, and pause-owner has lost its rights to end the stop, which it has
// reported in the record. Drydock restores the replicas after DRYDOCK_READY_TIMEOUT. The operator still obeys Drydock's own stop, and
// scales the set to zero again. The set is needed and was not started, so the wake-up has failed.
func TestStuckStopIsNoSuccess(t *testing.T) {
	waking := sleep(api.Waking, due, build.OwnerStops(), build.AsleepFor(time.Hour), func(s *api.Sleep) {
		s.OwnerProblem = `PerconaXtraDBCluster main stays paused: perconaxtradbclusters "main" is forbidden`
	})
	s := simulation{t: t, now: build.Now, sets: []*appsv1.StatefulSet{web(zero, build.ReplicaCounts(0, 0),
		build.ControlledBy("PerconaXtraDBCluster", "main"), waking, build.LastActivity(0), build.Label("broken", "true"))}}
	for range 60 {
		s.step("web")
		if statefulset.Replicas(s.sets[0]) > 0 {
			s.sets[0] = build.With(s.sets[0], zero, build.ReplicaCounts(0, 0)) // the operator obeys the stop
		}
		s.now = s.now.Add(time.Minute)
	}
	if record := s.sleepOf("web"); record.Phase == api.Succeeded {
		t.Errorf("the set is in use and at zero, because Drydock's stop has not ended: %s (%s)", build.Words(record), record.Message)
	}
}

// TestWakeByOperatorLastsUntilFormerCount: an operator that stopped a set of three starts its members one by one. While spec.replicas is
// 1 and one is ready, the sleep ends: then nothing protects the claims of members 1 and 2 from cleanup-pod, which sees a scale-down to 1.
func TestWakeByOperatorLastsUntilFormerCount(t *testing.T) {
	set := web(build.Replicas(1), build.LastActivity(0), sleep(api.Waking, build.OwnerStops(), build.SleepDue(20*time.Minute),
		build.AsleepFor(time.Hour)))
	if p := Decide(on(set)); p.Kind == plan.KindDo {
		t.Errorf("1 of 3 members: %s", p)
	}
}

// TestWakeKeepsItsStart: the metrics measure a wake-up from its start, although the set had to wait for another one.
func TestWakeKeepsItsStart(t *testing.T) {
	began := build.StoredSleep(Decide(on(web(zero, build.LastActivity(0), stopped(), sleep(api.Asleep, build.AsleepFor(time.Hour))))))
	if began.Phase != api.Waking || began.WakingAt == nil || !began.WakingAt.Time.Equal(build.Now) {
		t.Errorf("%s", began.Encode())
	}
	earlier := build.Now.Add(-time.Minute)
	waiting := sleep(api.Waking, build.AsleepFor(time.Hour), due, build.SleepReason(api.DependencyFirst, "no"),
		func(s *api.Sleep) { s.WakingAt = operation.Moment(earlier) })
	if next := build.StoredSleep(Decide(on(web(zero, stopped(), waiting)))); next == nil || !next.WakeBegan().Time.Equal(earlier) {
		t.Errorf("%s", build.Words(next))
	}
}
