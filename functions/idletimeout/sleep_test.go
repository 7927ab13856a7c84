package idletimeout

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/functions/scale"
	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
	"drydock.dev/test/kit/build"
)

// due is a deadline in the future.
var due = build.SleepDue(time.Minute)

// replicasWrittenBy makes the field manager the last writer of the set's replicas.
func replicasWrittenBy(manager string) build.Option {
	return build.Edit(func(s *appsv1.StatefulSet) {
		s.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: manager, FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:replicas":{}}}`)}}}
	})
}

// simulation applies the decisions of idle-timeout and scale to the sets, as the API server would. The StatefulSet controller
// finishes its work before the next decision. A set with the label "broken" never becomes ready.
type simulation struct {
	t    *testing.T
	now  time.Time
	sets []*appsv1.StatefulSet
	// rejection is why the API server rejects each change of replicas, or empty.
	rejection string
	log       []string
	last      map[string]string // the last log line about each set
}

// runUntil runs a step for each set every minute until end returns true.
func (s *simulation) runUntil(long time.Duration, end func() bool) {
	s.t.Helper()
	for deadline := s.now.Add(long); s.now.Before(deadline) && !end(); s.now = s.now.Add(time.Minute) {
		for _, about := range s.sets {
			s.step(about.Name)
		}
	}
}

// step applies decisions of idle-timeout on an event about the set, and those of scale, until there is nothing to do.
func (s *simulation) step(name string) {
	s.t.Helper()
	for range 20 {
		in := on(s.sets...)
		in.Now, in.Name = s.now, name
		p := Decide(in)
		s.apply(name, p)
		if scaled := s.scale(); p.Kind != plan.KindDo && !scaled {
			return
		}
	}
	s.t.Fatalf("decisions without end:\n%s", strings.Join(s.log, "\n"))
}

// scale applies the next decision of scale on each set, and reports whether it was to do something.
func (s *simulation) scale() bool {
	s.t.Helper()
	scaled := false
	for _, set := range s.sets {
		in := scale.Input{Now: s.now, Namespace: set.Namespace, Name: set.Name, Set: set, Settings: build.SleepSettings()}
		p := scale.Decide(in)
		if s.rejection != "" && strings.Contains(p.String(), "replicas ") {
			in.Rejected, in.RejectedPlan = s.rejection, p.Reason
			p = scale.Decide(in)
		}
		s.apply(set.Name, p)
		scaled = scaled || p.Kind == plan.KindDo
	}
	return scaled
}

func (s *simulation) apply(name string, p plan.Plan) {
	s.t.Helper()
	if line := p.String(); p.Kind != plan.KindNoop && line != s.last[name] {
		if s.last == nil {
			s.last = map[string]string{}
		}
		s.log = append(s.log, fmt.Sprintf("%s %s: %s", s.now.Sub(build.Now), name, line))
		s.last[name] = line
	}
	for _, a := range p.Actions {
		if a.Verb == plan.VerbPatch {
			s.patch(a)
		}
	}
}

func (s *simulation) patch(a plan.Action) {
	s.t.Helper()
	for i, set := range s.sets {
		if set.Name != a.Name {
			continue
		}
		next := build.After(set, a)
		wanted := statefulset.Replicas(next)
		next.Status.Replicas, next.Status.ReadyReplicas = wanted, wanted
		if next.Labels["broken"] != "" {
			next.Status.ReadyReplicas = 0
		}
		s.sets[i] = next
	}
}

func (s *simulation) sleepOf(name string) *api.Sleep {
	for _, set := range s.sets {
		if set.Name == name {
			sleep, err := api.LoadSleep(set)
			if err != nil {
				s.t.Fatal(err)
			}
			return sleep
		}
	}
	return nil
}

// Invariants: I4.
func TestPlannedSleepWaitsForPauseOwner(t *testing.T) {
	with := func(options ...build.Option) Input { return on(web(append(options, sleep(api.Planned, due))...)) }
	check(t, map[string]Input{
		"pause-owner asks the owner":                                          with(),
		"the deadline belongs to pause-owner":                                 on(web(sleep(api.Planned, build.SleepDue(-time.Hour)))),
		"the set is being deleted":                                            with(build.Deleting()),
		"a resize is asked for":                                               with(build.Resize("data=1Gi")),
		"the set was used in the second of the decision":                      with(build.LastActivity(time.Minute)),
		"the set was scaled up since, and is used":                            with(build.LastActivity(0), build.Replicas(5)),
		"the user aborts the sleep":                                           with(abort),
		"another client scaled the set to zero and has to wake it":            with(zero, replicasWrittenBy("kubectl"), build.LastActivity(0)),
		"the operator scaled the set to zero before its consent was recorded": on(web(zero, sleep(api.Planned, due, build.OwnerStops()))),
		"the set is no longer opted in":                                       with(optOut),
	})
}

func TestAsleep(t *testing.T) {
	asleep := func(options ...build.Option) Input {
		asleep := []build.Option{zero, stopped(build.StoppedFor(time.Hour)), sleep(api.Asleep, build.AsleepFor(time.Hour))}
		return on(web(append(asleep, options...)...))
	}
	check(t, map[string]Input{
		"the set is not needed":         asleep(),
		"the set is being deleted":      asleep(build.Deleting(), build.LastActivity(0)),
		"a resize is asked for":         asleep(build.Resize("data=1Gi")),
		"a keep-warm window opens":      asleep(build.Annotation(api.KeepWarmAnnotation, "Sun 12:00-13:00")),
		"awake-until is in the future":  asleep(build.AwakeFor(time.Minute)),
		"the timeout was removed":       asleep(without(api.IdleTimeoutAnnotation)),
		"the set is no longer paused":   asleep(sleep(api.Asleep, build.AsleepFor(time.Hour), build.SleepCause(idle.RequestPaused))),
		"the user aborts the sleep":     asleep(abort),
		"the set is no longer opted in": asleep(optOut),
		"the operator stopped the set and has to start it": on(
			web(zero, sleep(api.Asleep, build.AsleepFor(time.Hour), build.OwnerStops()), build.LastActivity(0))),
		"another client has started it, and it is needed": on(web(build.Replicas(2), build.LastActivity(0),
			stopped(build.StoppedFor(time.Hour)), sleep(api.Asleep, build.AsleepFor(time.Hour)))),
		"another client has started it": on(web(build.Replicas(2), stopped(build.StoppedFor(time.Hour)), sleep(api.Asleep,
			build.AsleepFor(time.Hour)))),
		"the stored use is in the future and stays": asleep(build.LastActivity(-time.Hour)),
	})
}

// TestTwoControllersDoNotFight: a deployment tool restores the replicas a minute after each scale-down. Each time, Drydock leaves the set
// alone for twice as long. Without the tool, the set sleeps the whole time.
func TestTwoControllersDoNotFight(t *testing.T) {
	for name, row := range map[string]struct {
		set    []build.Option
		tool   bool
		sleeps int
	}{
		"an idle set":               {nil, true, 8},
		"a paused set":              {[]build.Option{build.Paused()}, true, 8},
		"an idle set without tool":  {nil, false, 1},
		"a paused set without tool": {[]build.Option{build.Paused()}, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := simulation{t: t, now: build.Now, sets: []*appsv1.StatefulSet{web(append(row.set, build.IdleTimeout("10s"))...)}}
			sleeps := 0
			for end := s.now.Add(48 * time.Hour); s.now.Before(end); s.now = s.now.Add(time.Minute) {
				switch sleep := s.sleepOf("web"); {
				case sleep.Active() && sleep.Phase == api.Planned: // the work of pause-owner
					consented := operation.Enter(sleep, api.Stopping, s.now, time.Hour)
					build.With(s.sets[0], build.Annotation(api.SleepAnnotation, consented.Encode()))
					sleeps++
				case row.tool && sleep.Active() && sleep.Phase == api.Asleep:
					build.With(s.sets[0], build.Replicas(3), build.ReplicaCounts(3, 3))
				}
				s.step("web")
			}
			if sleeps != row.sleeps {
				t.Errorf("the set was put to sleep %d times in two days, not %d:\n%s", sleeps, row.sleeps, strings.Join(s.log, "\n"))
			}
		})
	}
}

// TestNeededSleepEndsTheCount: a sleep that ends because the set is needed begins a new count of starts by other clients.
func TestNeededSleepEndsTheCount(t *testing.T) {
	asleep := sleep(api.Asleep, build.AsleepFor(time.Minute), build.Starts(3))
	for reason, set := range map[api.Reason]*appsv1.StatefulSet{
		api.Awake:           web(zero, stopped(), asleep, build.LastActivity(0)),
		api.StartedByOthers: web(stopped(build.StoppedFor(time.Hour)), asleep),
	} {
		want := map[api.Reason]int{api.Awake: 0, api.StartedByOthers: 4}[reason]
		s := simulation{t: t, now: build.Now, sets: []*appsv1.StatefulSet{set}}
		s.runUntil(time.Hour, func() bool { return !s.sleepOf("web").Active() })
		if ended := s.sleepOf("web"); ended.Phase != api.Succeeded || ended.Reason != reason || ended.Starts != want {
			t.Errorf("%s: %s", reason, build.Words(ended))
		}
	}
}

// TestSetScaledToZeroByAnotherClientStaysAtZero: Drydock restores only replicas that it removed.
// Invariants: I4.
func TestSetScaledToZeroByAnotherClientStaysAtZero(t *testing.T) {
	for name, set := range map[string]*appsv1.StatefulSet{
		"planned, and the set is used":                   web(zero, build.LastActivity(0), sleep(api.Planned, due)),
		"planned, and the sleep is aborted":              web(zero, abort, sleep(api.Planned, due)),
		"the owner consented, and the set is used":       web(zero, build.LastActivity(0), sleep(api.Stopping, due)),
		"the owner consented, and the set is not needed": web(zero, sleep(api.Stopping, due)),
		"planned, and the set is not opted in":           web(zero, optOut, sleep(api.Planned, due)),
		"the owner consented, and the deadline passed":   web(zero, build.ReplicaCounts(1, 1), sleep(api.Stopping, build.SleepDue(-time.Second))),
		"planned, and the set is kept warm": web(zero, sleep(api.Planned, due),
			build.Annotation(api.KeepWarmAnnotation, "Daily 00:00-24:00")),
	} {
		t.Run(name, func(t *testing.T) {
			s := simulation{t: t, now: build.Now, sets: []*appsv1.StatefulSet{set}}
			s.runUntil(2*time.Hour, func() bool { return !s.sleepOf("web").Active() })
			if n := statefulset.Replicas(s.sets[0]); n != 0 {
				t.Errorf("another client scaled the set to zero, and it has %d replicas:\n%s", n, strings.Join(s.log, "\n"))
			}
			if sleep := s.sleepOf("web"); sleep.Active() || sleep.Phase == api.Failed && sleep.Reason == api.NotReady {
				t.Errorf("its sleep is %s %s: %s\n%s", sleep.Phase, sleep.Reason, sleep.Message, strings.Join(s.log, "\n"))
			}
		})
	}
}

// TestUserStopsWhatHeHasStarted: a user starts a sleeping set, whose pods need some time to become ready, and scales it to zero again.
// Drydock asks back only pods that it has stopped itself.
// Invariants: I4.
func TestUserStopsWhatHeHasStarted(t *testing.T) {
	s := simulation{t: t, now: build.Now, sets: []*appsv1.StatefulSet{web(build.ReplicaCounts(3, 0), build.Label("broken", "yes"),
		stopped(build.StoppedFor(time.Hour)), sleep(api.Asleep, build.AsleepFor(time.Hour)))}}
	s.step("web")
	if s.sleepOf("web").Phase != api.Waking {
		t.Fatal(build.Words(s.sleepOf("web")))
	}
	s.sets[0] = build.With(s.sets[0], zero, build.ReplicaCounts(0, 0))
	s.runUntil(time.Hour, func() bool { return !s.sleepOf("web").Active() })
	if record := s.sleepOf("web"); record.Active() || record.Reason != api.AtZeroAlready || statefulset.Replicas(s.sets[0]) != 0 {
		t.Errorf("%d replicas, %s:\n%s", statefulset.Replicas(s.sets[0]), build.Words(record), strings.Join(s.log, "\n"))
	}
}

// TestZeroOfOtherClusterIsRespected: the operator has stopped db, whose group has a set web. Before Drydock has written that it stops web,
// too, a visit ends the sleep of the group, and web is at zero. Its operator has stopped it only if the custom resource is the same.
// Otherwise its user has scaled it to zero.
func TestZeroOfOtherClusterIsRespected(t *testing.T) {
	operators := func(name, cluster string, options ...build.Option) *appsv1.StatefulSet {
		return member(name, append(options, shop, zero, build.ControlledBy("PerconaXtraDBCluster", cluster))...)
	}
	for cluster, wakes := range map[string]bool{"one": true, "two": false} {
		db := operators("db", "one", build.LastActivity(0), sleep(api.Stopping, build.OwnerStops(), due))
		s := simulation{t: t, now: build.Now, sets: []*appsv1.StatefulSet{db, operators("web", cluster, sleep(api.Planned, due))}}
		s.step("web")
		next := s.sleepOf("web")
		if waking := next.Phase == api.Waking && next.OwnerStops; waking != wakes || !wakes && next.Reason != api.AtZeroAlready ||
			statefulset.Replicas(s.sets[1]) != 0 {
			t.Errorf("cluster %s: web has %d replicas, %s:\n%s", cluster, statefulset.Replicas(s.sets[1]), build.Words(next),
				strings.Join(s.log, "\n"))
		}
	}
}

// TestReplicasAndRetentionPolicyAreRestored: however a sleep ends, the set has its previous replicas and retention policy.
// Invariants: I4.
func TestReplicasAndRetentionPolicyAreRestored(t *testing.T) {
	ends := map[string]build.Option{"used": build.LastActivity(-2 * time.Hour), "aborted": abort, "opted out": optOut,
		"kept warm": build.Annotation(api.KeepWarmAnnotation, "Daily 00:00-24:00"),
		"a mistake": build.Annotation(api.KeepWarmAnnotation, "x"), "no timeout any more": without(api.IdleTimeoutAnnotation)}
	for name, end := range ends {
		for _, after := range []time.Duration{0, time.Minute, time.Hour} {
			t.Run(fmt.Sprintf("%s after %s", name, after), func(t *testing.T) {
				s := simulation{t: t, now: build.Now, sets: []*appsv1.StatefulSet{web(build.WhenScaled("Delete"))}}
				s.step("web")
				consented := operation.Enter(s.sleepOf("web"), api.Stopping, s.now, time.Hour) // the work of pause-owner
				build.With(s.sets[0], build.Annotation(api.SleepAnnotation, consented.Encode()))
				if after > 0 {
					s.runUntil(after, func() bool { return false })
					if statefulset.Replicas(s.sets[0]) != 0 || statefulset.WhenScaled(s.sets[0]) != statefulset.Retain {
						t.Fatalf("it does not sleep:\n%s", strings.Join(s.log, "\n"))
					}
				}
				build.With(s.sets[0], end)
				s.runUntil(time.Hour, func() bool { return !s.sleepOf("web").Active() })
				s.scale()
				if set := s.sets[0]; s.sleepOf("web").Active() || statefulset.Replicas(set) != 3 || statefulset.WhenScaled(set) != "Delete" ||
					set.Annotations[api.AbortAnnotation] != "" {
					t.Errorf("%d replicas, whenScaled %s\n%s", statefulset.Replicas(set), statefulset.WhenScaled(set), strings.Join(s.log, "\n"))
				}
			})
		}
	}
}

// TestSleepOfAFormerSetDoesNotCount: a set was restored from a backup of a sleeping set, or created again with its annotations. Only its
// users wake it, whatever needs it. Its own sleep would end.
func TestSleepOfAFormerSetDoesNotCount(t *testing.T) {
	for uid, wakes := range map[types.UID]bool{"uid-before": false, "uid-web": true} {
		for name, row := range map[string][]build.Option{
			"a visit":              {build.AwakeFor(time.Hour)},
			"a pause that is over": {sleepOf(uid, build.SleepCause(idle.RequestPaused))},
			"a wake-up that continues": {sleepOf(uid, build.SleepReason(api.DependencyFirst, ""),
				func(s *api.Sleep) { s.Phase = api.Waking })},
			"a Scaler": {build.AwakeFor(time.Hour), build.Edit(func(s *appsv1.StatefulSet) { scaledByPilot(s) })},
		} {
			set := web(append([]build.Option{zero, stopOf(uid), sleepOf(uid)}, row...)...)
			in := on(set)
			if operation.Of(set).Scale != nil {
				in = in.withScaler(false)
			}
			p := Decide(in)
			if woken := build.StoredSleep(p); (woken != nil && woken.Phase == api.Waking) != wakes || !wakes && p.Kind == plan.KindDo {
				t.Errorf("%s, record of %s: %s, want a wake-up: %t", name, uid, p, wakes)
			}
		}
	}
}

// sleepOf stores the record of a sleep of the set with the UID.
func sleepOf(uid types.UID, options ...func(*api.Sleep)) build.Option {
	record := build.Sleep(api.Asleep, append([]func(*api.Sleep){build.AsleepFor(time.Hour)}, options...)...)
	record.Set.UID = uid
	return build.Annotation(api.SleepAnnotation, record.Encode())
}

// stopOf stores the stop for that sleep.
func stopOf(uid types.UID) build.Option {
	stop := build.Stop()
	stop.Set.UID = uid
	return build.Annotation(api.StopAnnotation, stop.Encode())
}

// TestParkedMemberKeepsNoGroupAwake: an operator has started only one of three members of db in time, which does not become ready, so the
// wake-up has failed. The user gives up, and scales the custom resource to zero. Its group must sleep nevertheless, as with any other
// member at zero.
func TestParkedMemberKeepsNoGroupAwake(t *testing.T) {
	group := build.InGroup("shop")
	waking := build.Sleep(api.Waking, build.OwnerStops(), build.AsleepFor(time.Hour), build.SleepDue(-time.Second))
	db := build.Set("db", group, build.Replicas(1), build.ReplicaCounts(1, 0), build.Label("broken", "true"),
		build.ControlledBy("PerconaXtraDBCluster", "main"),
		build.IdleTimeout("1h"), build.LastActivity(time.Minute), build.WithSleep(waking))
	set := web(group, build.Replicas(3), build.ReplicaCounts(3, 3), build.LastActivity(time.Minute))
	s := simulation{t: t, now: build.Now, sets: []*appsv1.StatefulSet{db, set}}
	s.step("db")
	if record := s.sleepOf("db"); record.Phase != api.Failed {
		t.Fatal(build.Words(record))
	}
	s.sets[0] = build.With(s.sets[0], zero, build.ReplicaCounts(0, 0)) // the user scales the custom resource to zero
	for range 3 {
		s.now = s.now.Add(24 * time.Hour)
		s.step("db")
		s.step("web")
	}
	if sleep := s.sleepOf("web"); sleep == nil {
		_, verdicts := Input{Now: s.now, Group: on(s.sets...).Group}.judge()
		t.Errorf("web was idle for three days, and stays awake: %s", verdicts[1].Why)
	}
}

// TestActivityStartsASiblingThatWasStoppedWithoutASleep: one custom resource has two sets, db and web, in one group. The operator is
// stopped for db, when pause-owner refuses the sleep of web. web is at zero, because its operator has
// stopped it for Drydock, and not because a user wanted it. An activity of web must start it: only a wake-up of db ends the stop.
func TestActivityStartsASiblingThatWasStoppedWithoutASleep(t *testing.T) {
	byCluster, group := build.ControlledBy("PerconaXtraDBCluster", "main"), build.InGroup("shop")
	for name, signal := range map[string]string{"an activity": events.Activity, "a wake event": events.Wake} {
		t.Run(name, func(t *testing.T) {
			db := build.Set("db", zero, build.ReplicaCounts(0, 0), group, byCluster, build.IdleTimeout("1h"), build.LastActivity(9*time.Hour),
				build.WithSleep(build.Sleep(api.Asleep, build.OwnerStops(), build.AsleepFor(time.Minute))))
			refused := build.Sleep(api.Refused, build.SleepEnded(api.OwnerNotPausable, time.Minute))
			set := web(zero, build.ReplicaCounts(0, 0), group, byCluster, build.LastActivity(9*time.Hour), build.WithSleep(refused))
			s := simulation{t: t, now: build.Now, sets: []*appsv1.StatefulSet{set, db}}
			for range 4 {
				p := Decide(on(s.sets...).withSignal(signal, 0))
				t.Logf("%s", p)
				s.apply("web", p)
			}
			if sleep := s.sleepOf("db"); sleep.Phase == api.Asleep {
				t.Errorf("web is in use and stays at zero, because db stays asleep: %s", build.Words(sleep))
			}
		})
	}
}

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

// TestStopping: scale stops the pods and says so in the stop. The sleep waits for their end, or fails.
// Invariants: I1, I4, I8.
func TestStopping(t *testing.T) {
	with := func(options ...build.Option) Input {
		return on(web(append([]build.Option{sleep(api.Stopping, due)}, options...)...))
	}
	half, late, operators := stopped(build.StoppedFor(30*time.Second)), build.SleepDue(-time.Second), build.OwnerStops()
	refused := stopped(build.NotStopped(), build.RefusedBy("admission webhook denied the request"))
	ofAnother := func(s *api.Stop) { s.Operation = "0123456789ab" }
	check(t, map[string]Input{
		"scale has yet to stop it":         with(),
		"scale has not stopped it in time": with(sleep(api.Stopping, late)),
		"pods end":                         with(half, zero, build.ReplicaCounts(2, 2)),
		"the controller has not seen it":   with(half, zero, build.NotObserved()),
		"all pods have ended":              with(half, zero),
		"all pods have ended, and it had another count than planned": with(half, zero, stopped(func(s *api.Stop) { s.Replicas = 5 })),
		"all pods ended when the deadline passed":                    with(sleep(api.Stopping, late), stopped(build.StoppedFor(time.Hour)), zero),
		"another client scaled it to zero before scale":              with(zero, replicasWrittenBy("kubectl")),
		"another sleep has stopped it":                               with(zero, stopped(ofAnother)),
		"its Scaler was paused first":                                with(zero, stopped(build.StoppedByScaler(build.ID))),
		"the set is being deleted":                                   with(half, zero, build.ReplicaCounts(1, 1), build.Deleting()),
		"the operator scales the set to zero":                        with(sleep(api.Stopping, due, operators)),
		"the operator scaled the set to zero, and a pod is left":     with(sleep(api.Stopping, due, operators), zero, build.ReplicaCounts(1, 1)),
		"the operator scaled the set to zero, and all pods ended":    with(sleep(api.Stopping, due, operators), zero),
		"the operator does not scale the set to zero in time":        with(sleep(api.Stopping, late, operators)),
		"the operator scaled the set to zero, and a pod does not end in time": with(sleep(api.Stopping, late, operators), zero,
			build.ReplicaCounts(1, 1)),
		"pods do not end in time":                 with(stopped(build.StoppedFor(time.Hour)), zero, build.ReplicaCounts(1, 1)),
		"the API server rejected the stop":        with(refused),
		"the API server rejected an earlier stop": with(stopped(build.NotStopped(), build.RefusedBy("no"), ofAnother)),
		"the set is used before it is stopped":    with(build.LastActivity(0)),
		"the set is used while pods end":          with(half, zero, build.ReplicaCounts(2, 2), build.LastActivity(0)),
		"the set is used while its operator stops it": with(sleep(api.Stopping, due, operators), zero,
			build.ReplicaCounts(2, 2), build.LastActivity(0)),
		"the user aborts the sleep":                 with(half, zero, build.ReplicaCounts(2, 2), abort),
		"the user aborts the sleep before the stop": with(abort),
		"the set is no longer opted in":             with(half, zero, optOut),
	})
}

// TestReplicasRestoredByAnotherClient: another client has scaled the set up during its sleep. Only the first write of an operator within a
// minute may have come late. Later, or from any other client, it means that the set is needed.
// Invariants: I4.
func TestReplicasRestoredByAnotherClient(t *testing.T) {
	owned, user := build.ControlledBy("Database", "main"), replicasWrittenBy("kubectl")
	stop := func(ago time.Duration, options ...func(*api.Stop)) build.Option {
		return stopped(append(options, build.StoppedFor(ago))...)
	}
	again := func(s *api.Stop) { s.Again = true }
	stopping, paused := sleep(api.Stopping, due), build.SleepCause(idle.RequestPaused)
	asleep := func(ago time.Duration, options ...func(*api.Sleep)) build.Option {
		return sleep(api.Asleep, append([]func(*api.Sleep){build.AsleepFor(ago)}, options...)...)
	}
	started := func(ago time.Duration) build.Option {
		return sleep(api.Succeeded, paused, build.SleepEnded(api.StartedByOthers, ago), build.Starts(1))
	}
	with := func(options ...build.Option) Input {
		return on(web(append([]build.Option{build.Replicas(2)}, options...)...))
	}
	check(t, map[string]Input{
		"an operator is late": with(owned, stopping, stop(59*time.Second)),
		"the operator of a set that fell asleep at once is late": with(owned, asleep(59*time.Second), stop(59*time.Second)),
		"an operator writes a second time": with(owned, stopping, stop(time.Second, again),
			replicasWrittenBy("redis-operator")),
		"an operator writes after a minute":       with(owned, asleep(time.Minute), stop(time.Minute)),
		"a user starts a set without an operator": with(asleep(time.Second), stop(time.Second), user),
		"a set with an operator is started while a Scaler scales it": on(scaledByPilot(web(owned, build.Replicas(2), stopping,
			stop(time.Second)))).withScaler(false),
		"a deployment tool starts the set for the third time": with(asleep(time.Minute, build.Starts(2)), stop(time.Minute),
			replicasWrittenBy("argocd-controller")),
		"a user starts a set whose pods are ending":   with(stopping, stop(5*time.Minute), user),
		"the operator that stopped the set starts it": with(owned, asleep(time.Second, build.OwnerStops())),
		"a user starts the paused set":                with(build.Paused(), asleep(time.Hour, paused), stop(time.Hour)),
		"a user started the paused set recently":      with(build.Paused(), started(12*time.Minute)),
		"a user started the paused set long ago":      with(build.Paused(), started(13*time.Minute)),
	})
}

// TestDeadlineOfStop: the sleep gives up a stop that does not begin in time. Pods that were told to stop have the whole time from then on.
func TestDeadlineOfStop(t *testing.T) {
	settings := build.SleepSettings()
	short, long := settings.QuiesceTimeout+30*time.Second, settings.QuiesceTimeout+time.Hour
	grace := build.Edit(func(s *appsv1.StatefulSet) {
		seconds := int64(3600)
		s.Spec.Template.Spec.TerminationGracePeriodSeconds = &seconds
	})
	ending := []build.Option{zero, build.ReplicaCounts(1, 1)}
	overdue, nothing := sleep(api.Stopping, build.SleepDue(-time.Second)), sleep(api.Stopping)
	for name, row := range map[string]struct {
		options []build.Option
		fails   bool
	}{
		"its record has no deadline":                       {[]build.Option{sleep(api.Stopping)}, false},
		"it is stopped at the deadline":                    {[]build.Option{sleep(api.Stopping, build.SleepDue(0))}, false},
		"it is not stopped after the deadline":             {[]build.Option{overdue}, true},
		"it was stopped just before the deadline":          {append(ending, overdue, stopped(build.StoppedFor(time.Minute))), false},
		"its pods have their grace period left":            {append(ending, overdue, stopped(build.StoppedFor(short))), false},
		"its pods have no time left":                       {append(ending, overdue, stopped(build.StoppedFor(short+time.Second))), true},
		"its pods have a long grace period":                {append(ending, overdue, grace, stopped(build.StoppedFor(long))), false},
		"its pods have a long grace period, which is over": {append(ending, overdue, grace, stopped(build.StoppedFor(long+time.Second))), true},
		"its operator has not stopped it": {[]build.Option{sleep(api.Stopping, build.OwnerStops(),
			build.SleepDue(-time.Second))}, true},
	} {
		set := web(append([]build.Option{nothing}, row.options...)...)
		p := Decide(on(set))
		next := build.StoredSleep(p)
		if fails := next != nil && next.FailedAt == api.Stopping && next.Reason == api.DeadlineExceeded; fails != row.fails {
			t.Errorf("%s: %s", name, p)
		} else if !fails && p.Kind != plan.KindWait {
			t.Errorf("%s: %s, want that it waits", name, p)
		}
	}
}

// TestRejectedStopCounts: a webhook rejects each scale-down to zero. Each sleep fails, and only DrydockOperationFailed tells the
// administrator. The set runs the whole time.
func TestRejectedStopCounts(t *testing.T) {
	s := simulation{t: t, now: build.Now, sets: []*appsv1.StatefulSet{web(sleep(api.Stopping, due))}, rejection: "webhook denied"}
	s.runUntil(time.Hour, func() bool { return !s.sleepOf("web").Active() })
	records := operation.Of(s.sets[0])
	if failed := records.Sleep; failed.Phase != api.Failed || failed.FailedAt != api.Stopping || failed.Reason != api.Rejected ||
		!strings.Contains(failed.Message, "webhook denied") || records.Settled(failed) || statefulset.Replicas(s.sets[0]) != 3 {
		t.Errorf("%d replicas, %s:\n%s", statefulset.Replicas(s.sets[0]), build.Words(failed), strings.Join(s.log, "\n"))
	}
}
