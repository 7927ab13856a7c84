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

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
	"drydock.dev/test/kit/build"
)

// due is a deadline that has not come.
var due = build.SleepDue(time.Minute)

// scaler is who last wrote the set's replicas.
func scaler(manager string) build.Option {
	return build.Edit(func(s *appsv1.StatefulSet) {
		s.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: manager, FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:replicas":{}}}`)}}}
	})
}

func TestPlannedIsPauseOwnersTurn(t *testing.T) {
	with := func(options ...build.Option) Input { return on(web(append(options, sleep(api.Planned, due))...)) }
	check(t, map[string]Input{
		"the owner is asked":                                        with(),
		"its deadline is not ours":                                  on(web(sleep(api.Planned, build.SleepDue(-time.Hour)))),
		"the set is being deleted":                                  with(build.Deleting()),
		"a resize is asked for":                                     with(build.Resize("data=1Gi")),
		"used in the second it began":                               with(build.Active(time.Minute)),
		"I4: somebody has scaled it up since":                       with(build.Active(0), build.Replicas(5)),
		"somebody aborts":                                           with(abort),
		"I4: somebody has scaled it to zero: theirs to wake":        with(zero, scaler("kubectl"), build.Active(0)),
		"its operator has stopped it: its consent is about to come": on(web(zero, sleep(api.Planned, due, build.OwnerStops()))),
		"it is not opted in any more":                               with(optOut),
	})
}

func TestStopping(t *testing.T) {
	consented := sleep(api.Stopping, due)
	stopping := sleep(api.Stopping, due, build.ScaledDown(30*time.Second))
	with := func(options ...build.Option) Input { return on(web(options...)) }
	check(t, map[string]Input{
		"the owner consents: it is scaled to zero": with(consented),
		"pods take longer than others": with(consented, build.Edit(func(s *appsv1.StatefulSet) {
			grace := int64(3600)
			s.Spec.Template.Spec.TerminationGracePeriodSeconds = &grace
		})),
		"I4: somebody scaled it between the decision and now: that count comes back": with(consented, build.Replicas(5)),
		"I1: claims that a scale-down deletes are kept, in the same write":           with(consented, build.WhenScaled("Delete")),
		"I1: somebody puts Delete back before another round":                         with(sleep(api.Stopping, due, build.ScaledDown(time.Second), build.Kept("Delete")), build.WhenScaled("Delete"), build.Owned("Database", "main")),
		"what is kept already is remembered":                                         with(sleep(api.Stopping, due, build.ScaledDown(time.Second), build.Kept("Delete")), build.WhenScaled("Retain"), build.Owned("Database", "main")),
		"pods end":                                                                   with(stopping, zero, build.Counting(2, 2)),
		"the controller has not seen it":                                             with(stopping, zero, build.Unseen()),
		"all pods have ended":                                                        with(stopping, zero),
		"they have, as the deadline came":                                            with(sleep(api.Stopping, build.SleepDue(-time.Second), build.ScaledDown(time.Hour)), zero),
		"the set is being deleted":                                                   with(stopping, zero, build.Counting(1, 1), build.Deleting()),
		"its operator stops it":                                                      with(sleep(api.Stopping, due, build.OwnerStops())),
		"its operator is about to be done":                                           with(sleep(api.Stopping, due, build.OwnerStops()), zero, build.Counting(1, 1)),
		"its operator has stopped it":                                                with(sleep(api.Stopping, due, build.OwnerStops()), zero),
		"I8: its operator does not stop it":                                          with(sleep(api.Stopping, build.SleepDue(-time.Second), build.OwnerStops())),
		"I8: its operator stopped it, but for a pod":                                 with(sleep(api.Stopping, build.SleepDue(-time.Second), build.OwnerStops()), zero, build.Counting(1, 1)),
		"I8, I4: pods do not end: the set gets its replicas back":                    with(sleep(api.Stopping, build.SleepDue(-time.Second), build.ScaledDown(time.Hour)), zero, build.Counting(1, 1)),
		"I8: nobody came to scale it":                                                with(sleep(api.Stopping, build.SleepDue(-time.Second))),
		"it is used while pods end":                                                  with(stopping, zero, build.Counting(2, 2), build.Active(0)),
		"it is used while its operator stops it: the operator starts it":             with(sleep(api.Stopping, due, build.OwnerStops()), zero, build.Counting(2, 2), build.Active(0)),
		"somebody aborts":                                                            with(stopping, zero, build.Counting(2, 2), abort),
		"it is not opted in any more":                                                with(stopping, zero, optOut),
		"the API server refuses to scale it":                                         with(consented).refused("admission webhook denied the request"),
		"what it refuses of a member is not about the others":                        on(member("db", shop, sleep(api.Planned)), web(shop, consented)).refused("no"),
	})
}

// Invariants: I4.
func TestI4ReplicasThatSomebodyPutsBack(t *testing.T) {
	owned := build.Owned("Database", "main")
	again := func(round int) build.Option {
		return sleep(api.Stopping, due, build.ScaledDown(30*time.Second), build.SleepRound(round))
	}
	asleep := func(ago time.Duration, options ...func(*api.Sleep)) build.Option {
		return sleep(api.Asleep, append([]func(*api.Sleep){build.Slept(ago)}, options...)...)
	}
	with := func(options ...build.Option) Input {
		return on(web(append([]build.Option{build.Replicas(2)}, options...)...))
	}
	check(t, map[string]Input{
		"an operator, while it stops: once more; the count from before comes back": with(owned, again(1)),
		"an operator, while it stops: a third time":                                with(owned, again(2)),
		"an operator that will not let it: it is given up":                         with(owned, again(3), scaler("redis-operator")),
		"an operator that is late, within a minute":                                with(owned, asleep(59*time.Second)),
		"later it is somebody's wish":                                              with(owned, asleep(time.Minute)),
		"late for the third time":                                                  with(owned, asleep(time.Second, build.SleepRound(3))),
		"a person, at once":                                                        with(asleep(time.Second), scaler("kubectl")),
		"its operator, which had stopped it":                                       with(owned, asleep(time.Second, build.OwnerStops())),
		"a person, of a set that is paused":                                        with(build.Paused(), asleep(time.Hour, build.Because(idle.ForPause))),
		"that is left alone for a while":                                           with(build.Paused(), sleep(api.Succeeded, build.Because(idle.ForPause), build.Ended(api.StartedByOthers, time.Minute))),
		"then it sleeps again":                                                     with(build.Paused(), sleep(api.Succeeded, build.Because(idle.ForPause), build.Ended(api.StartedByOthers, 13*time.Minute))),
	})
}

// TestI4APersonWhoStartsASetWhileItStops is heard at once, as when it is asleep: nobody but an operator that is late is
// scaled down again.
// Invariants: I4.
func TestI4APersonWhoStartsASetWhileItStops(t *testing.T) {
	p := Decide(on(web(build.Replicas(2), sleep(api.Stopping, due, build.ScaledDown(5*time.Minute)), scaler("kubectl"))))
	if next := build.StoredSleep(p); p.Reason != api.StartedByOthers || next.Phase != api.Waking || next.Replicas != 2 {
		t.Errorf("%s", p)
	}
}

// TestI4WhoeverScaledToZeroIsNotOverruled: what Drydock did not take away it does not give back.
// Invariants: I4.
func TestI4WhoeverScaledToZeroIsNotOverruled(t *testing.T) {
	for name, set := range map[string]*appsv1.StatefulSet{
		"planned, and used":                 web(zero, build.Active(0), sleep(api.Planned, due)),
		"planned, and aborted":              web(zero, abort, sleep(api.Planned, due)),
		"consented, and used":               web(zero, build.Active(0), sleep(api.Stopping, due)),
		"consented, and nobody needs it":    web(zero, sleep(api.Stopping, due)),
		"planned, and not opted in":         web(zero, optOut, sleep(api.Planned, due)),
		"consented, and the time is over":   web(zero, build.Counting(1, 1), sleep(api.Stopping, build.SleepDue(-time.Second))),
		"planned, another one is kept warm": web(zero, sleep(api.Planned, due), build.Annotation(api.KeepWarmAnnotation, "Daily 00:00-24:00")),
	} {
		t.Run(name, func(t *testing.T) {
			s := story{t: t, now: build.Now, sets: []*appsv1.StatefulSet{set}}
			s.until(2*time.Hour, func() bool { return !s.sleepOf("web").Active() })
			if n := statefulset.Replicas(s.sets[0]); n != 0 {
				t.Errorf("somebody scaled it to zero, and it has %d replicas:\n%s", n, strings.Join(s.log, "\n"))
			}
			if sleep := s.sleepOf("web"); sleep.Active() || sleep.Phase == api.Failed && sleep.Reason == api.NotReady {
				t.Errorf("its sleep is %s %s: %s\n%s", sleep.Phase, sleep.Reason, sleep.Message, strings.Join(s.log, "\n"))
			}
		})
	}
}

func TestAsleep(t *testing.T) {
	asleep := func(options ...build.Option) Input {
		return on(web(append([]build.Option{zero, sleep(api.Asleep, build.Slept(time.Hour))}, options...)...))
	}
	check(t, map[string]Input{
		"nobody needs it":                            asleep(),
		"the set is being deleted":                   asleep(build.Deleting(), build.Active(0)),
		"a resize is asked for":                      asleep(build.Resize("data=1Gi")),
		"its hour has come":                          asleep(build.Annotation(api.KeepWarmAnnotation, "Sun 12:00-13:00")),
		"it is to be awake until a time":             asleep(build.AwakeFor(time.Minute)),
		"no clock puts it to sleep any more":         asleep(without(api.IdleTimeoutAnnotation)),
		"it is not paused any more":                  on(web(zero, sleep(api.Asleep, build.Slept(time.Hour), build.Because(idle.ForPause)))),
		"somebody aborts":                            asleep(abort),
		"it is not opted in any more":                asleep(optOut),
		"its operator has stopped it, and starts it": on(web(zero, sleep(api.Asleep, build.Slept(time.Hour), build.OwnerStops()), build.Active(0))),
		"a use in the future is not moved back":      asleep(build.Active(-time.Hour)),
	})
}

func TestWaking(t *testing.T) {
	with := func(phase []func(*api.Sleep), options ...build.Option) Input {
		all := append([]func(*api.Sleep){build.Slept(time.Hour), due, build.Told(api.WakingUp, "web: it was active")}, phase...)
		return on(web(append([]build.Option{sleep(api.Waking, all...)}, options...)...))
	}
	type edits = []func(*api.Sleep)
	late := build.SleepDue(-time.Second)
	given := func(reason api.Reason) func(*api.Sleep) {
		return func(s *api.Sleep) { s.FailedAt, s.Reason, s.Message = api.Stopping, reason, "it could not be" }
	}
	check(t, map[string]Input{
		"replicas are starting":                                         with(nil, build.Counting(2, 1)),
		"its operator is about to start it":                             with(edits{build.OwnerStops()}, zero),
		"all are ready":                                                 with(nil),
		"as many as somebody wants by now":                              with(nil, build.Replicas(2)),
		"an abort has nothing left to end":                              with(nil, abort),
		"not opted in any more":                                         with(nil, optOut),
		"paused meanwhile: it wakes first":                              with(nil, build.Paused()),
		"I1: somebody stops it while it wakes, and its claims would go": with(edits{build.Kept("Delete")}, zero, build.Counting(2, 2), build.WhenScaled("Retain")),
		"I1: its pods never end: the claims stay":                       with(edits{late, build.Kept("Delete")}, zero, build.Counting(2, 2), build.WhenScaled("Retain")),
		"somebody has stopped it while it woke":                         with(edits{build.Kept("Delete")}, zero, build.WhenScaled("Retain")),
		"I1: Delete is put back at the end":                             with(edits{build.Kept("Delete")}, build.WhenScaled("Retain")),
		"somebody has put it back":                                      with(edits{build.Kept("Delete")}, build.WhenScaled("Delete")),
		"somebody else has started it":                                  with(edits{build.Told(api.StartedByOthers, "kubectl gave it 3 replicas")}),
		"ready as the deadline came":                                    with(edits{late}),
		"I8: it does not get ready":                                     with(edits{late, build.Kept("Delete")}, build.Counting(3, 2), build.WhenScaled("Retain")),
		"I8: the API server refuses":                                    with(nil, zero).refused("quota exceeded"),
		"I8: the end of a sleep that was given up, not ready":           with(edits{late, given(api.Aborted)}, build.Counting(3, 2)),
	})
	t.Run("I8: the end of a sleep that was given up", func(t *testing.T) {
		p := Decide(with(edits{given(api.Aborted)}))
		sleep := build.StoredSleep(p)
		if p.Announce != events.OperationFailed || sleep.Phase != api.Failed || sleep.Reason != api.Aborted || sleep.FailedAt != api.Stopping || sleep.Message != "it could not be" {
			t.Errorf("%s: %s", p, build.Summary(sleep))
		}
	})
}

// TestAFailedSleepTellsSinceWhenTheSetIsUp: it stopped and started, so it stays up for its least time.
func TestAFailedSleepTellsSinceWhenTheSetIsUp(t *testing.T) {
	p := Decide(on(web(sleep(api.Waking, build.Slept(time.Hour), due, func(s *api.Sleep) { s.FailedAt = api.Stopping }))))
	if sleep := build.StoredSleep(p); sleep.Phase != api.Failed || sleep.Ready == nil || !sleep.Ready.Time.Equal(build.Now) {
		t.Errorf("%s", build.Summary(sleep))
	}
}

func TestWhatAMemberNeedsStartsFirst(t *testing.T) {
	db := func(options ...build.Option) *appsv1.StatefulSet {
		return member("db", append([]build.Option{shop}, options...)...)
	}
	waiting := sleep(api.Waking, build.Slept(time.Hour), due, build.Told(api.DependencyFirst, "web: it was active; it waits until db is ready"))
	front := func(options ...build.Option) *appsv1.StatefulSet {
		return web(append([]build.Option{shop, build.DependsOn("db"), waiting}, options...)...)
	}
	starting := []build.Option{build.Counting(3, 1), sleep(api.Waking, due)}
	check(t, map[string]Input{
		"it starts":              on(front(zero), db(starting...)),
		"it is at zero still":    on(front(zero), db(zero, sleep(api.Waking, due))),
		"it is ready":            on(front(zero), db(sleep(api.Succeeded, build.Up(0)))),
		"somebody did not wait":  on(front(build.Counting(3, 2)), db(starting...)),
		"and all is ready":       on(front(), db(starting...)),
		"each wakes in its turn": on(db(zero, sleep(api.Asleep, build.Slept(time.Hour))), front(zero)),
	})
}

// TestI8NobodyWaitsForEverForWhatItNeeds: replicas come back (I4), and people are told.
// Invariants: I8.
func TestI8NobodyWaitsForEverForWhatItNeeds(t *testing.T) {
	asleep := []build.Option{shop, zero, sleep(api.Asleep, build.Slept(time.Hour))}
	group := func(of []build.Option, more ...build.Option) []build.Option {
		return append(append([]build.Option{}, of...), more...)
	}
	broken := "broken"
	for name, sets := range map[string][]*appsv1.StatefulSet{
		"what it needs gets ready": {web(group(asleep, build.DependsOn("db"), build.Active(0))...), member("db", asleep...)},
		"a person has paused what it needs": {web(group(asleep, build.DependsOn("db"), build.Active(0))...),
			member("db", shop, zero, build.Paused(), sleep(api.Asleep, build.Slept(time.Hour), build.Because(idle.ForPause)))},
		"somebody has scaled to zero what it needs": {web(group(asleep, build.DependsOn("db"), build.Active(0))...), member("db", shop, zero)},
		"what it needs never gets ready":            {web(group(asleep, build.DependsOn("db"), build.Active(0))...), member("db", group(asleep, build.Label(broken, "yes"))...)},
		"what it needs runs, and never gets ready":  {web(group(asleep, build.DependsOn("db"), build.Active(0))...), member("db", shop, build.Counting(3, 1), build.Label(broken, "yes"))},
		"a circle that somebody wrote meanwhile":    {web(group(asleep, build.DependsOn("db"))...), member("db", group(asleep, build.DependsOn("web"))...)},
		"a name that somebody wrote meanwhile":      {web(group(asleep, build.DependsOn("cache"))...), member("db", asleep...)},
		"its operator starts it, what it needs is not there": {web(shop, zero, build.DependsOn("db"), build.Active(0), build.Label(broken, "yes"), sleep(api.Asleep, build.Slept(time.Hour), build.OwnerStops())),
			member("db", shop, zero)},
	} {
		t.Run(name, func(t *testing.T) {
			s := story{t: t, now: build.Now, sets: sets}
			s.until(3*time.Hour, func() bool { return !s.sleepOf("web").Active() })
			sleep := s.sleepOf("web")
			if sleep.Active() || !sleep.OwnerStops && statefulset.Replicas(s.sets[0]) != 3 {
				t.Errorf("after three hours web has %d replicas, its sleep is %s %s (%s)\n%s", statefulset.Replicas(s.sets[0]), sleep.Phase, sleep.Reason, sleep.Message, strings.Join(s.log, "\n"))
			}
		})
	}
}

// story lets decisions follow on each other: each is carried out on the sets as the API server would, and the StatefulSet
// controller has done its part before the next. A set with the label "broken" never gets ready.
type story struct {
	t    *testing.T
	now  time.Time
	sets []*appsv1.StatefulSet
	// records of sleeps, by name; nil before the first look.
	records map[string]Record
	log     []string
	last    map[string]string // the last line about each set
}

// until looks at each set every minute until the end.
func (s *story) until(long time.Duration, end func() bool) {
	s.t.Helper()
	for deadline := s.now.Add(long); s.now.Before(deadline) && !end(); s.now = s.now.Add(time.Minute) {
		for _, about := range s.sets {
			s.look(about.Name)
		}
	}
}

// look takes every step for an event about the set.
func (s *story) look(name string) {
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

// observeRecords has the input see the records that there are: at first those of the sets.
func (s *story) observeRecords(in Input) {
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

func (s *story) patch(a plan.Action) {
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

func (s *story) sleepOf(name string) *api.Sleep {
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

// TestI4EveryCountComesBack: however a sleep ends, the set has the replicas that it had, and its claims' policy.
// Invariants: I4.
func TestI4EveryCountComesBack(t *testing.T) {
	ends := map[string]build.Option{"used": build.Active(-2 * time.Hour), "aborted": abort, "opted out": optOut, "kept warm": build.Annotation(api.KeepWarmAnnotation, "Daily 00:00-24:00"),
		"a mistake": build.Annotation(api.KeepWarmAnnotation, "x"), "no timeout any more": without(api.IdleTimeoutAnnotation)}
	for name, end := range ends {
		for _, after := range []time.Duration{0, time.Minute, time.Hour} {
			t.Run(fmt.Sprintf("%s after %s", name, after), func(t *testing.T) {
				s := story{t: t, now: build.Now, sets: []*appsv1.StatefulSet{web(build.WhenScaled("Delete"))}}
				s.look("web")
				consented := operation.Enter(s.sleepOf("web"), api.Stopping, s.now, time.Hour) // pause-owner's part
				build.With(s.sets[0], build.Annotation(api.SleepAnnotation, consented.Encode()))
				if after > 0 {
					s.until(after, func() bool { return false })
					if statefulset.Replicas(s.sets[0]) != 0 || statefulset.WhenScaled(s.sets[0]) != statefulset.Retain {
						t.Fatalf("it does not sleep:\n%s", strings.Join(s.log, "\n"))
					}
				}
				build.With(s.sets[0], end)
				s.until(time.Hour, func() bool { return !s.sleepOf("web").Active() })
				if len(s.records) > 0 {
					t.Errorf("I9: %d records are left", len(s.records))
				}
				if set := s.sets[0]; s.sleepOf("web").Active() || statefulset.Replicas(set) != 3 || statefulset.WhenScaled(set) != "Delete" || set.Annotations[api.AbortAnnotation] != "" {
					t.Errorf("%d replicas, whenScaled %s\n%s", statefulset.Replicas(set), statefulset.WhenScaled(set), strings.Join(s.log, "\n"))
				}
			})
		}
	}
}
