package idletimeout

import (
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/fault"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
	"drydock.dev/test/kit/build"
)

// withRecords returns the input with the records of sleeps of set web.
func (in Input) withRecords(sleeps ...*api.Sleep) Input {
	in.Records = map[string][]Record{}
	for _, sleep := range sleeps {
		in.Records["web"] = append(in.Records["web"], recordOf(build.Set("web"), sleep))
	}
	return in
}

// Invariants: I3, I4.
func TestSleepRecords(t *testing.T) {
	slept := build.Sleep(api.Stopping, build.ScaledDown(time.Hour))
	other := build.Sleep(api.Stopping, build.ScaledDown(time.Hour), func(s *api.Sleep) { s.Set.UID = "uid-2" })
	unreadable := on(web(zero)).withRecords(slept)
	unreadable.Records["web"][0].Revision.Data.Raw = []byte("{")
	check(t, map[string]Input{
		"the set at zero lost its annotation":               on(web(zero)).withRecords(slept),
		"the set at zero lost its annotation and its label": on(web(zero, optOut)).withRecords(slept),
		"the annotation holds an older sleep": on(
			web(zero, sleep(api.Succeeded, func(s *api.Sleep) { s.Operation = "000000000000" }))).withRecords(slept),
		"the annotation holds the same sleep": on(
			web(zero, sleep(api.Asleep, build.AsleepFor(time.Hour)))).withRecords(slept),
		"the set runs without a sleep": on(web()).withRecords(slept),
		"the sleep has ended":          on(web(sleep(api.Succeeded))).withRecords(slept),
		"the sleep has ended, and another client scaled the set to zero": on(web(zero, sleep(api.Succeeded))).withRecords(slept),
		"the set is gone":      on().withRecords(slept),
		"the set was replaced": on(web(zero)).withRecords(other),
		"the annotation is unreadable: nothing is changed": on(
			web(zero, build.Annotation(api.SleepAnnotation, "{"))).withRecords(slept),
		"the record cannot be read": unreadable,
		"the set is being deleted":  on(web(zero, build.Deleting())).withRecords(slept),
		"the record belongs to a set outside the group": func() Input {
			in := on(member("db", build.LastActivity(0))).withRecords(slept)
			in.Name = "db"
			return in
		}(),
	})
}

// TestWhenRecordsAreRead: the activity of a running set reads no records. Any other event does, because the sleeping set may have been
// replaced by a set without a sleep.
func TestWhenRecordsAreRead(t *testing.T) {
	for name, row := range map[string]struct {
		in   Input
		want bool
	}{
		"the set is gone":            {on(), true},
		"a set that never slept":     {on(web()), true},
		"the set is used":            {func() Input { in := on(web()); in.Signal = Signal{Type: events.Activity}; return in }(), false},
		"a sleeping set is used":     {func() Input { in := on(web(zero)); in.Signal = Signal{Type: events.Wake}; return in }(), true},
		"a set at zero":              {on(web(zero)), true},
		"a set that will sleep soon": {on(web(sleep(api.Planned))), true},
		"a set that has slept":       {on(web(sleep(api.Succeeded))), true},
		"another member is at zero":  {on(web(shop), member("db", shop, zero)), true},
	} {
		if got := row.in.mayHaveRecords(); got != row.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestRecordHoldsReplicasBeforeScaleDown: the record is replaced if the set was scaled after an earlier try created it.
// Invariants: I4.
func TestRecordHoldsReplicasBeforeScaleDown(t *testing.T) {
	s := simulation{t: t, now: build.Now, sets: []*appsv1.StatefulSet{web(build.Replicas(5), sleep(api.Stopping, due))}}
	s.observeRecords(on(s.sets...))
	early := recordOf(s.sets[0], build.Sleep(api.Stopping, build.ScaledDown(0))) // holds three replicas; the scale-down met a conflict
	s.records[early.Revision.Name] = early
	s.step("web")
	if sleep := s.sleepOf("web"); sleep.Phase != api.Asleep || sleep.Replicas != 5 {
		t.Fatalf("%s", build.Words(sleep))
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

// TestRecordIsCreatedBeforeScaleDown: after a crash between the two writes there is a superfluous record, never a set without one.
// Invariants: I2.
func TestRecordIsCreatedBeforeScaleDown(t *testing.T) {
	p := Decide(on(web(sleep(api.Stopping, due))))
	if len(p.Actions) != 2 || p.Actions[0].Verb != plan.VerbCreate || p.Actions[1].Verb != plan.VerbPatch {
		t.Fatalf("%s", p)
	}
	record, err := api.LoadSleepRecord(p.Actions[0].Object.(*appsv1.ControllerRevision))
	if err != nil || record.Sleep.Encode() != build.StoredSleep(p).Encode() {
		t.Errorf("%+v, %v", record, err)
	}
}

// TestRecordDeletionOrderIsDeterministic repeats the decision on several records.
func TestRecordDeletionOrderIsDeterministic(t *testing.T) {
	in := on(web(shop), member("db", shop), member("queue", shop), member("cache", shop))
	for _, m := range in.Group {
		in.Records[m.Set.Name] = []Record{recordOf(m.Set, idle.NewSleep(m.Set, api.Stopping, idle.RequestIdle, 1, build.Now, ""))}
	}
	first := Decide(in).String()
	for range 50 {
		if again := Decide(in).String(); again != first {
			t.Fatalf("%s, and then %s", first, again)
		}
	}
}

// TestRecordIsKeptDuringSleep: the record is deleted at the end of the sleep (I9), not earlier.
func TestRecordIsKeptDuringSleep(t *testing.T) {
	for _, phase := range []api.Phase{api.Stopping, api.Asleep, api.Waking} {
		in := on(web(zero, build.ReplicaCounts(1, 0), sleep(phase, due, build.AsleepFor(time.Hour)))).withSignal(events.Activity, 3*time.Hour)
		if p := Decide(in); p.Reason == api.CleaningUp {
			t.Errorf("%s: %s", phase, p)
		}
	}
}

// TestGroupWakesAlthoughRecordIsNotDeleted: the record of a finished sleep stays because of the finalizer of another client, or because
// the API server rejects its deletion. Only the rejection fails the event.
func TestGroupWakesAlthoughRecordIsNotDeleted(t *testing.T) {
	for name, row := range map[string]struct {
		finalizers []string
		deleted    bool
		refuse     string
		deletions  int
	}{
		"it has a finalizer":                     {finalizers: []string{"example.com/archive"}, deleted: true},
		"the API server rejects a deletion":      {refuse: "preconditions", deletions: 1},
		"nothing prevents it from being deleted": {deletions: 1},
	} {
		t.Run(name, func(t *testing.T) {
			db := member("db", shop, sleep(api.Succeeded))
			old, err := api.LoadSleep(db)
			if err != nil {
				t.Fatal(err)
			}
			record := recordOf(db, old).Revision
			record.Finalizers = row.finalizers
			if row.deleted {
				record.DeletionTimestamp = ptr.To(metav1.Now())
			}
			c := newCluster(t, asleepInGroup("web"), db, record)
			c.refuse, c.refuseOf = row.refuse, []string{record.Name}
			c.sendForEach(t, "web")
			if statefulset.Replicas(c.set("web")) == 0 {
				t.Errorf("web stays at zero: %v", c.writes)
			}
			c.writes = nil
			_, err = c.function(build.SleepSettings()).Handle(t.Context(), newEvent(events.ObjectChanged, "2", time.Now(),
				map[string]string{"kind": "StatefulSet", "name": "db"}))
			if deletions := countOf(c.writes, "DELETE "+record.Name); deletions != row.deletions || fault.IsPermanent(err) != (row.refuse != "") {
				t.Errorf("%d deletions, %v; writes %v", deletions, err, c.writes)
			}
		})
	}
}

// countOf returns how often the text is in the list.
func countOf(list []string, text string) int {
	return len(slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s != text }))
}

// TestRecordThatIsBeingDeletedWakesNothing: a finalizer of another client may keep the record of an earlier sleep for long.
func TestRecordThatIsBeingDeletedWakesNothing(t *testing.T) {
	first := build.Sleep(api.Asleep, build.ScaledDown(5*time.Hour))
	first.Operation, first.Replicas = "000000000000", 7
	old := recordOf(build.Set("web"), first)
	old.Revision.DeletionTimestamp, old.Revision.Finalizers = ptr.To(metav1.NewTime(build.Now)), []string{"example.com/archive"}
	present := build.Sleep(api.Asleep, build.ScaledDown(time.Hour))
	lost := on(web(zero)) // a manifest has removed all annotations of a sleeping set
	lost.Records["web"] = []Record{old, recordOf(build.Set("web"), present)}
	if s := lost.lostSleep(lost.Group[0]); s == nil || s.Operation != present.Operation {
		t.Errorf("the lost sleep is %v, want the present one", s)
	}
	stopped := on(web(zero, sleep(api.Succeeded))) // a user has scaled an awake set to zero
	stopped.Records["web"] = []Record{old}
	if s := stopped.lostSleep(stopped.Group[0]); s != nil {
		t.Errorf("the lost sleep is %v, want none", s)
	}
}

// TestNoSleepBeginsBesideRecordOfFormerOne: its count would compete with the new one.
func TestNoSleepBeginsBesideRecordOfFormerOne(t *testing.T) {
	in := on(web(build.LastActivity(2*time.Hour), sleep(api.Succeeded)))
	if p := Decide(in); p.Reason != api.SleepDecided {
		t.Fatalf("%s, want that the set falls asleep", p)
	}
	former := recordOf(build.Set("web"), build.Sleep(api.Succeeded))
	in.Records["web"] = []Record{former}
	in.Rejected = map[string]string{former.Revision.Name: "an admission webhook forbids it"}
	if p := Decide(in); p.Kind == plan.KindDo {
		t.Errorf("%s", p)
	}
}

// TestRecordOfFormerSleepWakesNothing: the record of sleep 1 was not deleted yet, sleep 2 was refused, and the user has scaled the set to
// zero.
func TestRecordOfFormerSleepWakesNothing(t *testing.T) {
	former := build.Sleep(api.Asleep, build.ScaledDown(time.Hour))
	for attempt, wakes := range map[int]bool{2: false, 0: true} { // an older annotation may have been restored from a backup
		set := web(zero, build.LastActivity(0), sleep(api.Refused, func(s *api.Sleep) {
			s.Operation, s.Attempt, s.Reason, s.Finished = "cccccccccccc", attempt, api.ProbeFailed, operation.Moment(build.Now)
		}))
		in := on(set)
		in.Records["web"] = []Record{recordOf(set, former)}
		if p := Decide(in); (p.Reason == api.WakingUp) != wakes {
			t.Errorf("attempt %d: %s, want a wake-up: %t", attempt, p, wakes)
		}
	}
}

// TestRecordThatKeepsMembersIsRenewed: a resize has created the set again, while an operator has not started all members. The next request
// replaces the record of the resize, which proves that the sleep is one of this set.
func TestRecordThatKeepsMembersIsRenewed(t *testing.T) {
	late := build.Sleep(api.Failed, build.OwnerStops(), build.SleepEnded(api.NotReady, time.Hour), func(s *api.Sleep) {
		s.KeepMembers, s.Set.UID = 3, "uid-before"
	})
	resized := build.Operation(api.Succeeded, func(r *api.Resize) {
		r.ReplaceSet, r.Attempt, r.Operation = true, 1, api.OperationID("uid-before", r.Request, 1)
	})
	set := web(build.Replicas(2), build.ReplicaCounts(2, 2), build.Status(resized), build.Annotation(api.SleepAnnotation, late.Encode()))
	if found := idle.Concerned(operation.Change{Set: set, Records: operation.Of(set), Now: build.Now}); len(found) == 0 {
		t.Error("no change of the set calls idle-timeout")
	}
	p := Decide(on(set))
	if s := build.StoredSleep(p); s == nil || s.Set.UID != set.UID || s.KeepMembers != 3 {
		t.Errorf("%s: %s", p, build.Words(s))
	}
}
