package idletimeout

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
	"drydock.dev/test/kit/build"
)

// TestReplicasAreRestoredWhenOperatorIsAway: only Drydock knows the previous replica count.
func TestReplicasAreRestoredWhenOperatorIsAway(t *testing.T) {
	with := func(due time.Duration, options ...build.Option) Input {
		waking := sleep(api.Waking, build.AsleepFor(time.Hour), build.OwnerStops(), build.SleepDue(due),
			build.SleepReason(api.WakingUp, "web was active"))
		return on(web(append([]build.Option{zero, waking}, options...)...))
	}
	check(t, map[string]Input{
		"the operator has time left":                 with(time.Second),
		"the operator did not start the set in time": with(-time.Second),
		"the API server rejects the replicas":        with(-time.Second).withRejection("quota exceeded"),
		"the operator started the set in time":       with(-time.Second, build.Replicas(3)),
	})
}

// TestRejectedReplicasAreRetried: while the API server rejects the replicas, the sleep and its record stay.
func TestRejectedReplicasAreRetried(t *testing.T) {
	rejected := func(due time.Duration, options ...build.Option) Input {
		return on(
			web(append([]build.Option{sleep(api.Waking, build.AsleepFor(time.Hour), build.SleepDue(due), build.SleepReason(api.StartRefused, "no"))},
				options...)...),
		)
	}
	check(t, map[string]Input{
		"the API server rejects the replicas": on(
			web(zero, build.LastActivity(0), sleep(api.Asleep, build.AsleepFor(time.Hour)))).withRejection("quota exceeded"),
		"the next try is not due":                   rejected(time.Minute, zero),
		"the next try is due":                       rejected(-time.Second, zero),
		"the API server rejects the replicas again": rejected(-time.Second, zero).withRejection("quota exceeded"),
		"a user scaled the set":                     rejected(time.Minute),
	})
}

// wroteReplicas makes the field manager the last writer of the set's replicas, at a time before now.
func wroteReplicas(manager string, ago time.Duration) build.Option {
	return build.Edit(func(s *appsv1.StatefulSet) {
		at := metav1.NewTime(build.Now.Add(-ago))
		s.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: manager, Time: &at,
			FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:replicas":{}}}`)}}}
	})
}

// TestWakingSetLeftAtZeroByFailedSleep: the set wakes when it is needed, even if an operator controls it. A set that a user scaled to
// zero later stays at zero.
func TestWakingSetLeftAtZeroByFailedSleep(t *testing.T) {
	left := []build.Option{zero, build.ControlledBy("Database", "main"), wroteReplicas("postgres-operator", 2*time.Hour),
		sleep(api.Failed, build.SleepEnded(api.NotReady, time.Hour), func(s *api.Sleep) { s.FailedAt = api.Waking })}
	with := func(options ...build.Option) Input {
		return on(web(append(append([]build.Option{}, left...), options...)...))
	}
	check(t, map[string]Input{
		"a wake event":                        with(build.LastActivity(0)).withSignal(events.Wake, 0),
		"awake-until is in the future":        with(build.AwakeFor(time.Minute)),
		"the set is not needed":               with(),
		"a user scaled the set to zero since": with(build.AwakeFor(time.Minute), wroteReplicas("kubectl", time.Minute)),
		"it is paused":                        with(build.AwakeFor(time.Minute), build.Paused()),
	})
}

// TestSetDoesNotWaitForDependencyThatStaysAtZero: the set starts without it.
func TestSetDoesNotWaitForDependencyThatStaysAtZero(t *testing.T) {
	front := web(shop, zero, build.DependsOn("db"), build.LastActivity(0), sleep(api.Asleep, build.AsleepFor(time.Hour)))
	db := func(options ...build.Option) *appsv1.StatefulSet {
		return member("db", append([]build.Option{shop}, options...)...)
	}
	for name, row := range map[string]struct {
		db    *appsv1.StatefulSet
		waits bool
	}{
		"a user scaled the dependency to zero": {db(zero), false},
		"the dependency is paused": {
			db(zero, build.Paused(), sleep(api.Asleep, build.AsleepFor(time.Hour))), false,
		},
		"the dependency is awake with one of three replicas ready": {db(build.ReplicaCounts(3, 1)), false},
		"the dependency runs without a ready replica":              {db(build.ReplicaCounts(3, 0)), true},
		"the dependency wakes":                                     {db(build.ReplicaCounts(3, 1), sleep(api.Waking, due)), true},
		"the dependency wakes, and one ready replica is enough": {
			db(build.ReplicaCounts(3, 1), sleep(api.Waking, due), build.Annotation(api.WakeReadyAnnotation, "first")), false},
		"the dependency can be woken": {db(zero, build.Annotation(api.WakeReplicasAnnotation, "1")), true},
	} {
		t.Run(name, func(t *testing.T) {
			in := on(front, row.db)
			in.Group = in.Group.InWakeOrder()
			if got := unreadyDependency(in.Group, *in.Group.Find("web")) != ""; got != row.waits {
				t.Errorf("waits: %v", got)
			}
		})
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

// TestWakeKeepsItsStart: the metrics measure a wake-up from its start, although a rejected start is tried again.
func TestWakeKeepsItsStart(t *testing.T) {
	asleep := web(zero, build.LastActivity(0), sleep(api.Asleep, build.AsleepFor(time.Hour)))
	for situation, in := range map[string]Input{"accepted": on(asleep), "rejected": on(asleep).withRejection("quota exceeded")} {
		next := build.StoredSleep(Decide(in))
		if next.Phase != api.Waking || next.WakingAt == nil || !next.WakingAt.Time.Equal(build.Now) {
			t.Errorf("%s: %s", situation, next.Encode())
		}
	}
	earlier := build.Now.Add(-time.Minute)
	waking := sleep(api.Waking, build.AsleepFor(time.Hour), build.SleepDue(-time.Second), build.SleepReason(api.StartRefused, "no"),
		func(s *api.Sleep) { s.WakingAt = operation.Moment(earlier) })
	if next := build.StoredSleep(Decide(on(web(zero, waking)))); !next.WakeBegan().Time.Equal(earlier) {
		t.Error(next.Encode())
	}
}

// TestRetentionIsRestoredWhenPodsHaveEnded: a sleep has ended while the last pods of a set at zero were ending. With the policy Delete they
// would have lost their claims.
func TestRetentionIsRestoredWhenPodsHaveEnded(t *testing.T) {
	ended := sleep(api.Succeeded, func(s *api.Sleep) {
		s.Reason, s.WhenScaled, s.Finished = api.AtZeroAlready, "Delete", operation.Moment(build.Now)
	})
	for name, row := range map[string]struct {
		options []build.Option
		want    appsv1.PersistentVolumeClaimRetentionPolicyType
	}{
		"two pods are ending": {[]build.Option{zero, build.ReplicaCounts(2, 2)}, "Retain"},
		"all have ended":      {[]build.Option{zero, build.ReplicaCounts(0, 0)}, "Delete"},
		"it runs again":       {nil, "Delete"},
	} {
		set := web(append([]build.Option{build.WhenScaled("Retain"), build.LastActivity(0), ended}, row.options...)...)
		concerned := slices.Contains(idle.Concerned(operation.Change{Set: set, Records: operation.Of(set), Now: build.Now, Swept: true}),
			api.IdleTimeout)
		p := Decide(on(set))
		restored := strings.Contains(p.String(), "whenScaled Delete")
		if want := row.want == "Delete"; restored != want || concerned != want {
			t.Errorf("%s: the sweep wakes idle-timeout: %t; %s", name, concerned, p)
		} else if record := build.StoredSleep(p); restored && record.WhenScaled != "" {
			t.Errorf("%s: the record still has %s", name, record.WhenScaled)
		}
	}
}

// TestNewRecordKeepsRetentionToRestore: the last pods of a set at zero are ending, and another record replaces the one of the ended sleep.
func TestNewRecordKeepsRetentionToRestore(t *testing.T) {
	ended := sleep(api.Succeeded, func(s *api.Sleep) {
		s.Reason, s.WhenScaled, s.Finished = api.AtZeroAlready, "Delete", operation.Moment(build.Now)
	})
	set := func(options ...build.Option) *appsv1.StatefulSet {
		ending := []build.Option{zero, build.WhenScaled("Retain"), build.LastActivity(0), ended, build.ReplicaCounts(2, 2)}
		return web(append(ending, options...)...)
	}
	for name, in := range map[string]Input{
		"an activity starts the set":          on(set(build.Annotation(api.WakeReplicasAnnotation, "3"))).withSignal(events.Activity, 0),
		"a user writes an invalid annotation": on(set(build.IdleTimeout("soon"))),
	} {
		p := Decide(in)
		if record := build.StoredSleep(p); record == nil || record.WhenScaled != "Delete" {
			t.Errorf("%s: %s", name, p)
		}
	}
}

// TestAbortOfSetThatWaitsForDependency: web depends on db, and both sleep. After an abort, web waits for db. The end of its sleep still
// says why it failed.
func TestAbortOfSetThatWaitsForDependency(t *testing.T) {
	asleep := sleep(api.Asleep, build.AsleepFor(time.Hour))
	dependent := func(options ...build.Option) *appsv1.StatefulSet {
		return web(append(options, shop, build.DependsOn("db"))...)
	}
	starting := member("db", shop, build.LastActivity(0), build.ReplicaCounts(3, 0))
	ready := member("db", shop, build.LastActivity(0))
	waiting := build.StoredSleep(Decide(on(dependent(zero, asleep, abort), starting)))
	if waiting == nil || waiting.Phase != api.Waking || waiting.Reason != api.DependencyFirst {
		t.Fatalf("%s", build.Words(waiting))
	}
	started := build.StoredSleep(Decide(on(dependent(zero, build.WithSleep(waiting)), ready)))
	if started == nil || started.Reason != api.WakingUp {
		t.Fatalf("%s", build.Words(started))
	}
	ended := build.StoredSleep(Decide(on(dependent(build.WithSleep(started)), ready)))
	if ended == nil || ended.Phase != api.Failed || ended.Reason != api.Aborted || ended.Failure != nil ||
		!strings.Contains(ended.Message, "aborted at the user's request") {
		t.Errorf("%s", build.Words(ended))
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

// TestWakeByOperatorLastsUntilFormerCount: an operator that stopped a set of three starts its members one by one. While spec.replicas is
// 1 and one is ready, the sleep ends: then nothing protects the claims of members 1 and 2 from cleanup-pod, which sees a scale-down to 1.
func TestWakeByOperatorLastsUntilFormerCount(t *testing.T) {
	set := web(build.Replicas(1), build.LastActivity(0), sleep(api.Waking, build.OwnerStops(), build.SleepDue(20*time.Minute),
		build.AsleepFor(time.Hour)))
	if p := Decide(on(set)); p.Kind == plan.KindDo {
		t.Errorf("1 of 3 members: %s", p)
	}
}

// TestRejectedScaleDownCounts: a webhook rejects each scale-down to zero. Each sleep fails, and the next one begins after ten minutes.
// Nothing but DrydockOperationFailed tells the administrator.
func TestRejectedScaleDownCounts(t *testing.T) {
	stopping := web(sleep(api.Stopping, build.SleepDue(time.Hour)))
	waking := build.StoredSleep(Decide(on(stopping).withRejection("webhook denied")))
	if waking == nil || waking.Phase != api.Waking {
		t.Fatalf("%s", build.Words(waking))
	}
	failed := build.StoredSleep(Decide(on(web(build.WithSleep(waking)))))
	if failed == nil || failed.Phase != api.Failed || failed.FailedAt != api.Stopping {
		t.Fatalf("%s", build.Words(failed))
	}
	set := web(build.WithSleep(failed))
	if records := operation.Of(set); records.Settled(records.Sleep) {
		t.Errorf("the sleep has failed (%s), and its failure counts at no time", build.Words(failed))
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

// TestDependencyStopsAfterDeletedDependent: docs/sleep.md: a dependency stops after its dependents. web is being deleted, a finalizer
// holds it, and its pods run: the StatefulSet controller stops no pod of such a set.
func TestDependencyStopsAfterDeletedDependent(t *testing.T) {
	if p := Decide(on(member("db", shop), web(shop, build.DependsOn("db"), build.Deleting()))); p.Reason == api.SleepDecided {
		t.Errorf("3 pods of web run, and its dependency is stopped: %s", p)
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

// TestLongRejectionKeepsRecordReadable: an admission webhook rejects writes with a long message, such as a list of all violated rules.
// LoadSleep reads at most 32 KiB, and no function works on a set whose record cannot be read: it stays at zero.
func TestLongRejectionKeepsRecordReadable(t *testing.T) {
	asleep := on(web(zero, sleep(api.Asleep, build.AsleepFor(time.Hour)), build.LastActivity(0)))
	stopping := on(web(sleep(api.Stopping, build.SleepDue(time.Hour))))
	for name, row := range map[string]struct {
		in     Input
		length int
	}{
		"the wake-up of a set at zero is rejected":                           {asleep, 33 << 10},
		"the scale-down is rejected, and the message is in the record twice": {stopping, 17 << 10},
	} {
		p := Decide(row.in.withRejection(strings.Repeat("x", row.length)))
		if next := build.StoredSleep(p); next == nil || !strings.Contains(next.Message, "xxx") { // StoredSleep reads it as the functions do
			t.Errorf("%s: no record with the rejection is stored, or it cannot be read: %.300s", name, p)
		}
	}
}

// TestRequestedSleepOfGroupStays: an event requested the sleep of a group during a session, and was delivered late.
func TestRequestedSleepOfGroupStays(t *testing.T) {
	active := build.LastActivity(5 * time.Minute)
	ended := build.Annotation(api.AwakeUntilAnnotation, idle.FormatTime(build.Now.Add(-10*time.Second)))
	a, b := web(shop, active, ended), member("db", shop, active)
	in := on(a, b).withSignal(events.Sleep, time.Minute)
	var stored *api.Sleep
	p := Decide(in)
	stored = build.StoredSleep(p)
	if stored == nil {
		t.Fatal("no sleep")
	}
	name := "web"
	if p.Actions[0].Name == "db" {
		name = "db"
	}
	if name == "web" {
		a = web(shop, active, ended, build.WithSleep(stored))
	} else {
		b = member("db", shop, active, build.WithSleep(stored))
	}
	in = on(a, b)
	in.Name = name
	in.Now = in.Now.Add(5 * time.Second)
	p = Decide(in)
	if s := build.StoredSleep(p); s != nil && s.Phase == api.Waking {
		t.Errorf("the requested sleep wakes again: %s: %s", p, build.Words(s))
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
