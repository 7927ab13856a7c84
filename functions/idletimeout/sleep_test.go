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

// Invariants: I1, I4, I8.
func TestStopping(t *testing.T) {
	consented := sleep(api.Stopping, due)
	stopping := sleep(api.Stopping, due, build.ScaledDown(30*time.Second))
	with := func(options ...build.Option) Input { return on(web(options...)) }
	check(t, map[string]Input{
		"the owner consented: the set is scaled to zero": with(consented),
		"the pods have a long grace period": with(consented, build.Edit(func(s *appsv1.StatefulSet) {
			grace := int64(3600)
			s.Spec.Template.Spec.TerminationGracePeriodSeconds = &grace
		})),
		"the set was scaled after the decision: the new count is recorded": with(consented, build.Replicas(5)),
		"the scale-down retains claims in the same write":                  with(consented, build.WhenScaled("Delete")),
		"another client restores policy Delete before the next round": with(
			sleep(api.Stopping, due, build.ScaledDown(time.Second), build.OriginalWhenScaled("Delete")), build.WhenScaled("Delete"),
			build.ControlledBy("Database", "main")),
		"the policy is Retain already, and the previous policy stays recorded": with(
			sleep(api.Stopping, due, build.ScaledDown(time.Second), build.OriginalWhenScaled("Delete")), build.WhenScaled("Retain"),
			build.ControlledBy("Database", "main")),
		"pods end":                       with(stopping, zero, build.ReplicaCounts(2, 2)),
		"the controller has not seen it": with(stopping, zero, build.NotObserved()),
		"all pods have ended":            with(stopping, zero),
		"all pods ended when the deadline passed": with(sleep(api.Stopping, build.SleepDue(-time.Second), build.ScaledDown(time.Hour)),
			zero),
		"the set is being deleted":            with(stopping, zero, build.ReplicaCounts(1, 1), build.Deleting()),
		"the operator scales the set to zero": with(sleep(api.Stopping, due, build.OwnerStops())),
		"the operator scaled the set to zero, and a pod is left": with(sleep(api.Stopping, due, build.OwnerStops()), zero,
			build.ReplicaCounts(1, 1)),
		"the operator scaled the set to zero, and all pods ended": with(sleep(api.Stopping, due, build.OwnerStops()), zero),
		"the operator does not scale the set to zero in time":     with(sleep(api.Stopping, build.SleepDue(-time.Second), build.OwnerStops())),
		"the operator scaled the set to zero, and a pod does not end in time": with(
			sleep(api.Stopping, build.SleepDue(-time.Second), build.OwnerStops()), zero, build.ReplicaCounts(1, 1)),
		"pods do not end in time: the replicas are restored": with(
			sleep(api.Stopping, build.SleepDue(-time.Second), build.ScaledDown(time.Hour)), zero, build.ReplicaCounts(1, 1)),
		"the scale-down was not written in time": with(sleep(api.Stopping, build.SleepDue(-time.Second))),
		"the set is used while pods end":         with(stopping, zero, build.ReplicaCounts(2, 2), build.LastActivity(0)),
		"the set is used while its operator stops it: the operator starts it": with(sleep(api.Stopping, due, build.OwnerStops()), zero,
			build.ReplicaCounts(2, 2), build.LastActivity(0)),
		"the user aborts the sleep":             with(stopping, zero, build.ReplicaCounts(2, 2), abort),
		"the set is no longer opted in":         with(stopping, zero, optOut),
		"the API server rejects the scale-down": with(consented).withRejection("admission webhook denied the request"),
		"a rejected write to one member does not affect the others": on(member("db", shop, sleep(api.Planned)),
			web(shop, consented)).withRejection("no"),
	})
}

// Invariants: I4.
func TestReplicasRestoredByAnotherClient(t *testing.T) {
	owned := build.ControlledBy("Database", "main")
	stopping := func(ago time.Duration, options ...func(*api.Sleep)) build.Option {
		return sleep(api.Stopping, append([]func(*api.Sleep){due, build.ScaledDown(ago)}, options...)...)
	}
	started := sleep(api.Succeeded, build.SleepCause(idle.RequestPaused), build.SleepEnded(api.StartedByOthers, 13*time.Minute),
		build.Starts(1))
	asleep := func(ago time.Duration, options ...func(*api.Sleep)) build.Option {
		return sleep(api.Asleep, append([]func(*api.Sleep){build.AsleepFor(ago)}, options...)...)
	}
	with := func(options ...build.Option) Input {
		return on(web(append([]build.Option{build.Replicas(2)}, options...)...))
	}
	check(t, map[string]Input{
		"an operator is late: the set is scaled to zero once more, with the original count": with(owned, stopping(59*time.Second)),
		"the operator of a set that fell asleep at once is late":                            with(owned, asleep(59*time.Second)),
		"an operator writes a second time: another client started the set": with(
			owned, stopping(time.Second, build.Step(api.StoppedAgain)), replicasWrittenBy("redis-operator")),
		"replicas appear after a minute: another client started the set": with(owned, asleep(time.Minute)),
		"a user starts the sleeping set":                                 with(asleep(time.Second), replicasWrittenBy("kubectl")),
		"a deployment tool starts the set for the third time": with(
			asleep(time.Minute, build.Starts(2)), replicasWrittenBy("argocd-controller")),
		"a user starts a set whose pods are ending": with(stopping(time.Second)),
		"the operator that stopped the set starts it": with(
			owned, asleep(time.Second, build.OwnerStops())),
		"a user starts the paused set": with(
			build.Paused(), asleep(time.Hour, build.SleepCause(idle.RequestPaused))),
		"a user started the paused set recently": with(
			build.Paused(), sleep(api.Succeeded, build.SleepCause(idle.RequestPaused), build.SleepEnded(api.StartedByOthers, 12*time.Minute),
				build.Starts(1))),
		"a user started the paused set long ago": with(build.Paused(), started),
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
		api.Awake:           web(zero, asleep, build.LastActivity(0)),
		api.StartedByOthers: web(asleep),
	} {
		want := map[api.Reason]int{api.Awake: 0, api.StartedByOthers: 4}[reason]
		s := simulation{t: t, now: build.Now, sets: []*appsv1.StatefulSet{set}}
		s.runUntil(time.Hour, func() bool { return !s.sleepOf("web").Active() })
		if ended := s.sleepOf("web"); ended.Phase != api.Succeeded || ended.Reason != reason || ended.Starts != want {
			t.Errorf("%s: %s", reason, build.Words(ended))
		}
	}
}

// TestStartByAnotherClientDuringStopEndsSleep: the set wakes at once, as from sleep. Only replicas of a late operator are scaled down
// again.
// Invariants: I4.
func TestStartByAnotherClientDuringStopEndsSleep(t *testing.T) {
	p := Decide(on(web(build.Replicas(2), sleep(api.Stopping, due, build.ScaledDown(5*time.Minute)), replicasWrittenBy("kubectl"))))
	if next := build.StoredSleep(p); p.Reason != api.StartedByOthers || next.Phase != api.Waking || next.Replicas != 2 {
		t.Errorf("%s", p)
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

func TestAsleep(t *testing.T) {
	asleep := func(options ...build.Option) Input {
		return on(web(append([]build.Option{zero, sleep(api.Asleep, build.AsleepFor(time.Hour))}, options...)...))
	}
	check(t, map[string]Input{
		"the set is not needed":         asleep(),
		"the set is being deleted":      asleep(build.Deleting(), build.LastActivity(0)),
		"a resize is asked for":         asleep(build.Resize("data=1Gi")),
		"a keep-warm window opens":      asleep(build.Annotation(api.KeepWarmAnnotation, "Sun 12:00-13:00")),
		"awake-until is in the future":  asleep(build.AwakeFor(time.Minute)),
		"the timeout was removed":       asleep(without(api.IdleTimeoutAnnotation)),
		"the set is no longer paused":   on(web(zero, sleep(api.Asleep, build.AsleepFor(time.Hour), build.SleepCause(idle.RequestPaused)))),
		"the user aborts the sleep":     asleep(abort),
		"the set is no longer opted in": asleep(optOut),
		"the operator stopped the set and has to start it": on(
			web(zero, sleep(api.Asleep, build.AsleepFor(time.Hour), build.OwnerStops()), build.LastActivity(0))),
		"the stored use is in the future and stays": asleep(build.LastActivity(-time.Hour)),
	})
}

// Invariants: I1, I8.
func TestWaking(t *testing.T) {
	with := func(phase []func(*api.Sleep), options ...build.Option) Input {
		all := append([]func(*api.Sleep){build.AsleepFor(time.Hour), due, build.SleepReason(api.WakingUp, "web was active")}, phase...)
		return on(web(append([]build.Option{sleep(api.Waking, all...)}, options...)...))
	}
	type edits = []func(*api.Sleep)
	late := build.SleepDue(-time.Second)
	given := func(reason api.Reason) func(*api.Sleep) {
		return func(s *api.Sleep) { s.FailedAt, s.Reason, s.Message = api.Stopping, reason, "it could not be" }
	}
	check(t, map[string]Input{
		"replicas are starting":                             with(nil, build.ReplicaCounts(2, 1)),
		"the operator has to start the set":                 with(edits{build.OwnerStops()}, zero),
		"all are ready":                                     with(nil),
		"the set was scaled down and is ready":              with(nil, build.Replicas(2)),
		"the user aborts a sleep that is ending":            with(nil, abort),
		"the set is no longer opted in":                     with(nil, optOut),
		"the set was paused while it wakes: it wakes first": with(nil, build.Paused()),
		"another client scales the set to zero during the wake-up: claims stay retained while pods end": with(
			edits{build.OriginalWhenScaled("Delete")}, zero, build.ReplicaCounts(2, 2), build.WhenScaled("Retain")),
		"another client scales the set to zero during the wake-up, and pods never end: claims stay retained": with(
			edits{late, build.OriginalWhenScaled("Delete")}, zero, build.ReplicaCounts(2, 2), build.WhenScaled("Retain")),
		"another client scaled the set to zero during the wake-up": with(
			edits{build.OriginalWhenScaled("Delete")},
			zero,
			build.WhenScaled("Retain"),
		),
		"policy Delete is restored at the end":  with(edits{build.OriginalWhenScaled("Delete")}, build.WhenScaled("Retain")),
		"another client restored policy Delete": with(edits{build.OriginalWhenScaled("Delete")}, build.WhenScaled("Delete")),
		"another client started the set": with(
			edits{build.SleepReason(api.StartedByOthers, "kubectl gave it 3 replicas"), build.Starts(1)},
		),
		"ready when the deadline passed": with(edits{late}),
		"the set does not become ready in time": with(edits{late, build.OriginalWhenScaled("Delete")}, build.ReplicaCounts(3, 2),
			build.WhenScaled("Retain")),
		"the API server rejects a write of the wake-up": with(nil, zero).withRejection("quota exceeded"),
		"a failed sleep ends, and the set is not ready": with(edits{late, given(api.Aborted)}, build.ReplicaCounts(3, 2)),
	})
	t.Run("a failed sleep ends, and the set is ready", func(t *testing.T) {
		p := Decide(with(edits{given(api.Aborted)}))
		sleep := build.StoredSleep(p)
		if p.Announce != events.OperationFailed || sleep.Phase != api.Failed || sleep.Reason != api.Aborted || sleep.FailedAt != api.Stopping ||
			sleep.Message != "it could not be" {
			t.Errorf("%s: %s", p, build.Words(sleep))
		}
	})
}

// TestFailedSleepRecordsWhenSetWasReady: the pods were restarted, so the minimum uptime starts again.
func TestFailedSleepRecordsWhenSetWasReady(t *testing.T) {
	p := Decide(on(web(sleep(api.Waking, build.AsleepFor(time.Hour), due, func(s *api.Sleep) { s.FailedAt = api.Stopping }))))
	if sleep := build.StoredSleep(p); sleep.Phase != api.Failed || sleep.ReadyAt == nil || !sleep.ReadyAt.Time.Equal(build.Now) {
		t.Errorf("%s", build.Words(sleep))
	}
}

func TestDependencyStartsFirst(t *testing.T) {
	db := func(options ...build.Option) *appsv1.StatefulSet {
		return member("db", append([]build.Option{shop}, options...)...)
	}
	waiting := sleep(api.Waking, build.AsleepFor(time.Hour), due, build.SleepReason(api.DependencyFirst,
		"web was active; the set waits until db is ready"))
	front := func(options ...build.Option) *appsv1.StatefulSet {
		return web(append([]build.Option{shop, build.DependsOn("db"), waiting}, options...)...)
	}
	starting := []build.Option{build.ReplicaCounts(3, 1), sleep(api.Waking, due)}
	check(t, map[string]Input{
		"the dependency is starting":                                     on(front(zero), db(starting...)),
		"the dependency is at zero":                                      on(front(zero), db(zero, sleep(api.Waking, due))),
		"the dependency is ready":                                        on(front(zero), db(sleep(api.Succeeded, build.ReadyFor(0)))),
		"another client started the set before its dependency was ready": on(front(build.ReplicaCounts(3, 2)), db(starting...)),
		"the set is ready before its dependency":                         on(front(), db(starting...)),
		"the dependency wakes first": on(
			db(zero, sleep(api.Asleep, build.AsleepFor(time.Hour))),
			front(zero),
		),
	})
}

// TestSetDoesNotWaitForeverForDependency: the replicas are restored (I4), and the reason is reported.
// Invariants: I8.
func TestSetDoesNotWaitForeverForDependency(t *testing.T) {
	asleep := []build.Option{shop, zero, sleep(api.Asleep, build.AsleepFor(time.Hour))}
	group := func(of []build.Option, more ...build.Option) []build.Option {
		return append(append([]build.Option{}, of...), more...)
	}
	broken := "broken"
	for name, sets := range map[string][]*appsv1.StatefulSet{
		"the dependency becomes ready": {web(group(asleep, build.DependsOn("db"), build.LastActivity(0))...), member("db", asleep...)},
		"the user paused the dependency": {web(group(asleep, build.DependsOn("db"), build.LastActivity(0))...),
			member("db", shop, zero, build.Paused(), sleep(api.Asleep, build.AsleepFor(time.Hour), build.SleepCause(idle.RequestPaused)))},
		"another client scaled the dependency to zero": {web(group(asleep, build.DependsOn("db"), build.LastActivity(0))...),
			member("db", shop, zero)},
		"the dependency never becomes ready": {web(group(asleep, build.DependsOn("db"), build.LastActivity(0))...),
			member("db", group(asleep, build.Label(broken, "yes"))...)},
		"the dependency runs and never becomes ready": {web(group(asleep, build.DependsOn("db"), build.LastActivity(0))...),
			member("db", shop, build.ReplicaCounts(3, 1), build.Label(broken, "yes"))},
		"a dependency cycle was written during the sleep": {web(group(asleep, build.DependsOn("db"))...),
			member("db", group(asleep, build.DependsOn("web"))...)},
		"an unknown dependency was written during the sleep": {web(group(asleep, build.DependsOn("cache"))...), member("db", asleep...)},
		"the operator starts the set, and its dependency is at zero": {
			web(shop, zero, build.DependsOn("db"), build.LastActivity(0), build.Label(broken, "yes"),
				sleep(api.Asleep, build.AsleepFor(time.Hour), build.OwnerStops())),
			member("db", shop, zero)},
	} {
		t.Run(name, func(t *testing.T) {
			s := simulation{t: t, now: build.Now, sets: sets}
			s.runUntil(3*time.Hour, func() bool { return !s.sleepOf("web").Active() })
			sleep := s.sleepOf("web")
			if sleep.Active() || !sleep.OwnerStops && statefulset.Replicas(s.sets[0]) != 3 {
				t.Errorf("after three hours web has %d replicas, its sleep is %s %s (%s)\n%s", statefulset.Replicas(s.sets[0]), sleep.Phase,
					sleep.Reason, sleep.Message, strings.Join(s.log, "\n"))
			}
		})
	}
}

// simulation applies one decision after another to the sets, as the API server would. The StatefulSet controller finishes its work
// before the next decision. A set with the label "broken" never becomes ready.
type simulation struct {
	t    *testing.T
	now  time.Time
	sets []*appsv1.StatefulSet
	// records holds the records of sleeps by name; nil before the first step.
	records map[string]Record
	log     []string
	last    map[string]string // the last log line about each set
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

// step applies decisions on an event about the set until there is nothing to do.
func (s *simulation) step(name string) {
	s.t.Helper()
	for range 20 {
		in := on(s.sets...)
		in.Now, in.Name = s.now, name
		s.observeRecords(in)
		p := Decide(in)
		if line := p.String(); p.Kind != plan.KindNoop && line != s.last[name] {
			s.log = append(s.log, fmt.Sprintf("%s %s: %s", s.now.Sub(build.Now), name, line))
			s.last[name] = line
		}
		if p.Kind != plan.KindDo {
			return
		}
		for _, a := range p.Actions {
			switch a.Verb {
			case plan.VerbPatch:
				s.patch(a)
			case plan.VerbCreate:
				revision := a.Object.(*appsv1.ControllerRevision)
				revision.UID, revision.ResourceVersion = "uid-record", "9"
				link, _ := api.LoadLink(revision)
				s.records[a.Name] = Record{Revision: revision, Link: link}
			case plan.VerbDelete:
				delete(s.records, a.Name)
			}
		}
	}
	s.t.Fatalf("decisions without end:\n%s", strings.Join(s.log, "\n"))
}

// observeRecords replaces the records of the input by those of the simulation. The first call takes over the records of the input.
func (s *simulation) observeRecords(in Input) {
	if s.records == nil {
		s.records, s.last = map[string]Record{}, map[string]string{}
		for _, records := range in.Records {
			s.records[records[0].Revision.Name] = records[0]
		}
	}
	clear(in.Records)
	for _, r := range s.records {
		in.Records[r.Link.Set.Name] = append(in.Records[r.Link.Set.Name], r)
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
				if len(s.records) > 0 {
					t.Errorf("I9: %d records are left", len(s.records))
				}
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
			"a Scaler that is paused": {build.AwakeFor(time.Hour), build.Edit(func(s *appsv1.StatefulSet) { scaledByPilot(s) })},
		} {
			set := web(append([]build.Option{zero, sleepOf(uid)}, row...)...)
			in := on(set)
			if operation.Of(set).Scale != nil {
				in = in.withScaler(true)
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
