package idletimeout

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// recorded is the same with the records of the sleep of set web.
func (in Input) recorded(sleeps ...*api.Sleep) Input {
	in.Records = map[string][]Record{}
	for _, sleep := range sleeps {
		in.Records["web"] = append(in.Records["web"], recordOf(build.Set("web"), sleep))
	}
	return in
}

func TestRecordsOfSleeps(t *testing.T) {
	slept := build.Sleep(api.Stopping, build.ScaledDown(time.Hour))
	other := build.Sleep(api.Stopping, build.ScaledDown(time.Hour), func(s *api.Sleep) { s.Set.UID = "uid-2" })
	unreadable := on(web(zero)).recorded(slept)
	unreadable.Records["web"][0].Revision.Data.Raw = []byte("{")
	check(t, map[string]Input{
		"I4: the set at zero has lost its document":       on(web(zero)).recorded(slept),
		"I4: it has lost its label, too":                  on(web(zero, optOut)).recorded(slept),
		"I4: it tells of an older sleep":                  on(web(zero, sleep(api.Succeeded, func(s *api.Sleep) { s.Operation = "000000000000" }))).recorded(slept),
		"it tells of this very sleep":                     on(web(zero, sleep(api.Asleep, build.Slept(time.Hour)))).recorded(slept),
		"it runs, and tells of none":                      on(web()).recorded(slept),
		"it tells of the end":                             on(web(sleep(api.Succeeded))).recorded(slept),
		"of the end, and somebody scaled it to zero":      on(web(zero, sleep(api.Succeeded))).recorded(slept),
		"the set is gone":                                 on().recorded(slept),
		"I3: the set is another one":                      on(web(zero)).recorded(other),
		"the document cannot be read: nothing is touched": on(web(zero, build.Annotation(api.SleepAnnotation, "{"))).recorded(slept),
		"the record cannot be read":                       unreadable,
		"the set is being deleted":                        on(web(zero, build.Deleting())).recorded(slept),
		"a record of a set that nobody asks about": func() Input {
			in := on(member("db", build.Active(0))).recorded(slept)
			in.Name = "db"
			return in
		}(),
	})
}

// TestWhenRecordsAreRead: not for each activity of a set that runs. A set that tells of no sleep may be another one than the
// one that slept.
func TestWhenRecordsAreRead(t *testing.T) {
	for name, row := range map[string]struct {
		in   Input
		want bool
	}{
		"the set is gone":              {on(), true},
		"a set that never slept":       {on(web()), true},
		"it is used":                   {func() Input { in := on(web()); in.Signal = Signal{Type: events.Activity}; return in }(), false},
		"it sleeps, and is used":       {func() Input { in := on(web(zero)); in.Signal = Signal{Type: events.Wake}; return in }(), true},
		"a set at zero":                {on(web(zero)), true},
		"a set that is about to sleep": {on(web(sleep(api.Planned))), true},
		"a set that has slept":         {on(web(sleep(api.Succeeded))), true},
		"one of its group":             {on(web(shop), member("db", shop, zero)), true},
	} {
		if got := row.in.mayHaveRecords(); got != row.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestI4TheRecordHasTheCountThatIsTakenAway, also when somebody scaled the set after an earlier try had made the record.
// Invariants: I4.
func TestI4TheRecordHasTheCountThatIsTakenAway(t *testing.T) {
	s := story{t: t, now: build.Now, sets: []*appsv1.StatefulSet{web(build.Replicas(5), sleep(api.Stopping, due))}}
	s.observeRecords(on(s.sets...))
	early := recordOf(s.sets[0], build.Sleep(api.Stopping, build.ScaledDown(0))) // of the three that there were; the scale-down met a conflict
	s.records[early.Revision.Name] = early
	s.look("web")
	if sleep := s.sleepOf("web"); sleep.Phase != api.Asleep || sleep.Replicas != 5 {
		t.Fatalf("%s", build.Summary(sleep))
	}
	for _, r := range s.records {
		if record, err := api.LoadSleepRecord(r.Revision); err != nil || record.Sleep.Replicas != 5 {
			t.Errorf("the record says %+v, %v", record, err)
		}
	}
	if len(s.records) != 1 {
		t.Errorf("%d records", len(s.records))
	}
}

// TestI2TheRecordComesFirst: a crash between the two writes leaves a record too many, never a set without one.
// Invariants: I2.
func TestI2TheRecordComesFirst(t *testing.T) {
	p := Decide(on(web(sleep(api.Stopping, due))))
	if len(p.Actions) != 2 || p.Actions[0].Verb != plan.VerbCreate || p.Actions[1].Verb != plan.VerbPatch {
		t.Fatalf("%s", p)
	}
	record, err := api.LoadSleepRecord(p.Actions[0].Object.(*appsv1.ControllerRevision))
	if err != nil || record.Sleep.Encode() != build.StoredSleep(p).Encode() {
		t.Errorf("%+v, %v", record, err)
	}
}

// TestRecordsInAnyOrder: which of several records goes first does not depend on chance.
func TestRecordsInAnyOrder(t *testing.T) {
	in := on(web(shop), member("db", shop), member("queue", shop), member("cache", shop))
	for _, m := range in.Group {
		in.Records[m.Set.Name] = []Record{recordOf(m.Set, idle.NewSleep(m.Set, api.Stopping, idle.ForIdle, 1, build.Now, ""))}
	}
	first := Decide(in).String()
	for range 50 {
		if again := Decide(in).String(); again != first {
			t.Fatalf("%s, and then %s", first, again)
		}
	}
}

// TestRecordsStayWhileTheSetSleeps: they go with the end of the sleep (I9), and not before.
func TestRecordsStayWhileTheSetSleeps(t *testing.T) {
	for _, phase := range []api.Phase{api.Stopping, api.Asleep, api.Waking} {
		in := on(web(zero, build.Counting(1, 0), sleep(phase, due, build.Slept(time.Hour)))).told(events.Activity, 3*time.Hour)
		if p := Decide(in); p.Reason == api.CleaningUp {
			t.Errorf("%s: %s", phase, p)
		}
	}
}
