package idletimeout

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
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
		ops, _ := json.Marshal(a.Ops)
		patch, err := jsonpatch.DecodePatch(ops)
		if err != nil {
			s.t.Fatal(err)
		}
		before, _ := json.Marshal(set)
		after, err := patch.Apply(before)
		if err != nil {
			s.t.Fatalf("%s: %v", a, err)
		}
		next := &appsv1.StatefulSet{}
		if err := json.Unmarshal(after, next); err != nil {
			s.t.Fatal(err)
		}
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
