package scale

import (
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/events"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/members"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
	"drydock.dev/test/kit/build"
)

// stopOf returns the record of the Stop, as the API server stores it.
func stopOf(stop *api.Stop) *appsv1.ControllerRevision { return resources.MakeStopRecord(web(0), stop) }

// asleep gives the set a sleep in this phase.
func asleep(phase api.Phase, options ...func(*api.Sleep)) build.Option {
	return build.WithSleep(build.Sleep(phase, options...))
}

// withStop gives the set the Stop of its sleep.
func withStop(options ...func(*api.Stop)) build.Option { return build.WithStop(build.Stop(options...)) }

// withSettings returns the input with the settings of a sleep.
func withSettings(in Input) Input {
	in.Settings = build.SleepSettings()
	return in
}

// alone returns the input for a set without a Scaler.
func alone(objects ...metav1.Object) Input { return withSettings(observed(objects...)) }

var (
	wokenUp    = func(s *api.Sleep) { s.WakingAt = operation.Moment(build.Now) }
	hasWoken   = build.SleepEnded(api.Awake, time.Minute)
	byOperator = build.ControlledBy("Database", "main")
	unreadable = build.Edit(func(r *appsv1.ControllerRevision) { r.Data.Raw = []byte(`{"version":99}`) })
)

// ofOtherCount is for the record of a stop whose set had another count.
func ofOtherCount(s *api.Stop) { s.Replicas = 5 }

func refusedAgo(long time.Duration) func(*api.Stop) {
	return func(s *api.Stop) { s.Refused, s.RefusedAt = "a quota", operation.Moment(build.Now.Add(-long)) }
}

func TestStopForSleep(t *testing.T) {
	stopping, kept := asleep(api.Stopping), stopOf(build.Stop())
	check(t,
		row{"it begins", alone(web(3, stopping))},
		row{"a scale-down deletes claims", alone(web(3, stopping, build.WhenScaled(deletes)))},
		row{"its record exists already", alone(web(3, stopping), kept)},
		row{"its record has another count", alone(web(3, stopping), stopOf(build.Stop(ofOtherCount)))},
		row{"the Stop before it has not ended", alone(web(3, stopping, build.WhenScaled(retains), withStop(build.FormerWhenScaled(deletes),
			ofOtherSleep, build.StartedFor(time.Hour))))},
		row{"the API server rejects it", withRejectionOf(api.ScalingDown, alone(web(3, stopping)))},
		row{"the API server has rejected it", alone(web(3, stopping, withStop(build.NotStopped(), build.RefusedBy("a quota"))))},
		row{"its operator stops the pods", alone(web(3, asleep(api.Stopping, build.OwnerStops())))},
		row{"its operator is late", alone(web(3, stopping, byOperator, withStop(build.StoppedFor(time.Second))), kept)},
		row{"its operator is late, and a scale-down deletes claims", alone(web(3, stopping, byOperator, build.WhenScaled(deletes),
			withStop(build.StoppedFor(time.Second))), kept)},
		row{"its operator is late, and the API server rejects the second stop", withRejectionOf(api.ScalingDown, alone(web(3, stopping,
			byOperator, withStop(build.StoppedFor(time.Second))), kept))},
		row{"the pods end", alone(web(0, stopping, build.ReplicaCounts(2, 2), withStop()), kept)},
		row{"the set sleeps", alone(web(0, asleep(api.Asleep), withStop()), kept)},
		row{"another client starts a pod", alone(web(1, asleep(api.Asleep), withStop()), kept)},
		row{"a user writes another retention policy", alone(web(0, asleep(api.Asleep), build.WhenScaled(deletes),
			withStop(build.FormerWhenScaled(deletes))), kept)},
		row{"a resize creates the set again", alone(web(3, build.Status(replaced()), build.UID("uid-new"), withStop(build.StartedFor(0))))},
	)
}

// ofOtherSleep is for the Stop of an earlier sleep.
func ofOtherSleep(s *api.Stop) { s.Operation = "0123456789ab" }

// replaced is the resize that has created the set again under the UID uid-new.
func replaced() *api.Resize {
	resize := build.Operation(api.Succeeded, build.ReplacesSet, build.DerivedID)
	resize.Set.UID = "uid-new"
	return resize
}

func TestStartAfterSleep(t *testing.T) {
	waking, kept := asleep(api.Waking, wokenUp), stopOf(build.Stop())
	check(t,
		row{"the set wakes", alone(web(0, waking, withStop()), kept)},
		row{"the set wakes, and had no pods before", alone(web(0, waking, withStop(func(s *api.Stop) { s.Replicas = 0 })), kept)},
		row{"the set waits for another one", alone(web(0, asleep(api.Waking, wokenUp, build.Step(api.AwaitsDependency)), withStop()), kept)},
		row{"the set has lost its sleep", alone(web(0, withStop()), kept)},
		row{"the set has lost its sleep, and has opted out", alone(web(0, notOptedIn, withStop()), kept)},
		row{"the set has opted out", alone(web(0, waking, notOptedIn, withStop()), kept)},
		row{"the set has opted out, and has a Scaler", alone(web(0, waking, notOptedIn, withStop()), kept, pilot())},
		row{"a set at zero is needed", alone(web(0, asleep(api.Waking)))},
		row{"a set whose Scaler was deleted while it was paused is needed", alone(web(0, asleep(api.Waking),
			build.WithStop(stopOfPause())), stopOf(stopOfPause()))},
		row{"its operator has not started it", alone(web(0, asleep(api.Waking, wokenUp, build.OwnerStops(), build.Step(api.StartedForOwner))))},
		row{"the API server rejects the start", withRejectionOf(api.WakingUp, alone(web(0, waking, withStop()), kept))},
		row{"the API server rejects the start of a set that Drydock has not stopped", withRejectionOf(api.WakingUp,
			alone(web(0, asleep(api.Waking))))},
		row{"the API server has rejected the start just now", alone(web(0, waking, withStop(refusedAgo(12*time.Minute))), kept)},
		row{"the API server rejected the start some time ago", alone(web(0, waking, withStop(refusedAgo(13*time.Minute))), kept)},
		row{"the API server rejects the start once more", withRejectionOf(api.WakingUp,
			alone(web(0, waking, withStop(refusedAgo(13*time.Minute))), kept))},
		row{"the pods were asked back", alone(web(3, waking, withStop(build.StartedFor(time.Minute))), kept)},
		row{"a user scales to zero after that", alone(web(0, waking, withStop(build.StartedFor(time.Minute))), kept)},
	)
}

func TestEndOfStop(t *testing.T) {
	ended, started, kept := asleep(api.Succeeded, hasWoken), build.StartedFor(time.Minute), stopOf(build.Stop())
	former := func(o metav1.Object) {
		build.WhenScaled(retains)(o)
		withStop(started, build.FormerWhenScaled(deletes))(o)
	}
	check(t,
		row{"the set is awake", alone(web(3, ended, withStop(started)), kept)},
		row{"the retention policy was set aside", alone(web(3, ended, former), kept)},
		row{"some pods still end", alone(web(1, ended, former, build.ReplicaCounts(3, 3)), kept)},
		row{"the API server rejects the retention policy", withRejectionOf(api.CleaningUp, alone(web(3, ended, former), kept))},
		row{"the API server rejects the retention policy of a set with a Scaler", withRejectionOf(api.CleaningUp,
			alone(web(3, ended, former, withEndedScaling(3)), pilot(), kept))},
		row{"a user has scaled to zero", alone(web(0, ended, former), kept)},
		row{"the scaling of the Scaler has failed", withReportedStatus(alone(web(3, ended, former,
			withRecord(api.Failed, failedAt(api.PostScaling))), pilot(), kept))},
		row{"a record is left", alone(web(3, ended), kept)},
		row{"a record of a failed stop is left", alone(web(3, asleep(api.Failed, hasWoken)), kept)},
		row{"a record is left, and the sleep begins", alone(web(0, asleep(api.Stopping)), stopOf(build.Stop(build.NotStopped())))},
		row{"a record is left that cannot be read", alone(web(3), build.With(stopOf(build.Stop()), unreadable))},
		row{"a record of a former set is left", alone(web(0), stopOf(build.Stop(ofFormerSet)))},
		row{"the set is deleted", alone(kept)},
		row{"the set is being deleted", alone(web(0, build.Deleting(), withStop()), kept)},
	)
}

// TestLostStopComesFromItsRecord: a manifest has replaced all annotations of a stopped set.
func TestLostStopComesFromItsRecord(t *testing.T) {
	kept, deleting := stopOf(build.Stop()), build.With(stopOf(build.Stop()), build.Deleting())
	older := stopOf(build.Stop(ofOtherSleep, ofOtherCount, build.StoppedFor(time.Hour)))
	check(t,
		row{"the set is at zero", alone(web(0), kept)},
		row{"the set is at zero, and an older record is left", alone(web(0), older, kept)},
		row{"the set is at zero, and its record is being deleted", alone(web(0), deleting)},
		row{"the set has opted out with it", alone(web(0, notOptedIn), kept)},
		row{"the manifest has started the pods", alone(web(2), kept)},
		row{"the Scaler was paused", alone(web(0), stopOf(stopOfPause()))},
		row{"the Scaler is paused", alone(web(0), stopOf(stopOfPause()), pilot(pausedScaler))},
		row{"the Scaler has lost its record, and is not paused", alone(web(0), kept, pilot(wants(2)))},
		row{"the Scaler still has its record", alone(web(0, withRecord(api.Succeeded, pausedAtZero)), stopOf(stopOfPause()),
			pilot(pausedScaler))},
	)
}

// TestUnreadableRecordIsReported: nothing says how many pods come back. A Scaler says it.
func TestUnreadableRecordIsReported(t *testing.T) {
	record := build.With(stopOf(build.Stop()), unreadable)
	p := Decide(alone(web(0), record))
	if words := warningOf(p); len(p.Actions) != 1 || p.Reason != api.LinkInvalid || !strings.Contains(words, "update Drydock") ||
		!strings.Contains(words, "Scale the set to its previous replica count, then delete this ControllerRevision") {
		t.Errorf("%s: %s", p, words)
	}
	if end, _ := playToEnd(t, alone(web(0, withEndedScaling(0)), record, pilot())); *end.Set.Spec.Replicas != 3 || len(end.Records) > 0 {
		t.Errorf("the Scaler starts %d members, %d records are left", *end.Set.Spec.Replicas, len(end.Records))
	}
}

func TestSleepWithScaler(t *testing.T) {
	stopping, sleeping, waking := asleep(api.Stopping), asleep(api.Asleep), asleep(api.Waking, wokenUp)
	stop, stopped, kept := withStop(), withRecord(api.Succeeded, pausedAtZero), stopOf(build.Stop())
	ended := withEndedScaling(3)
	check(t,
		row{"it begins", alone(web(3, stopping, ended), pilot())},
		row{"it begins, and the Scaler has hooks", alone(web(3, stopping, ended), pilot(withHooks))},
		row{"it begins, and the Scaler has no count", alone(web(3, stopping, ended), pilot(withoutCount))},
		row{"the hook has run", alone(web(3, stopping, withRecord(api.PreScaling, pausedAtZero)), pilot(withHooks), hookJob("pre", completed))},
		row{"the hook has run, and a scale-down deletes claims", alone(web(3, stopping, build.WhenScaled(deletes),
			withRecord(api.PreScaling, pausedAtZero)), pilot())},
		row{"the API server rejects the stop", withRejectionOf(api.CountChanged, alone(web(3, stopping,
			withRecord(api.PreScaling, pausedAtZero)), pilot()))},
		row{"the set sleeps", alone(web(0, sleeping, stop, stopped), pilot(), kept)},
		row{"another client starts a member", alone(web(1, sleeping, stop, stopped), pilot(), kept)},
		row{"the Scaler requests another count during the sleep", alone(web(0, sleeping, stop, stopped), pilot(wants(5)), kept)},
		row{"a user pauses the Scaler during the sleep", alone(web(0, sleeping, stop, stopped), pilot(pausedScaler), kept)},
		row{"the Scaler is new", alone(web(0, sleeping, stop), pilot(wants(2)), kept)},
		row{"the Scaler is new, and the set never had a Stop", alone(web(0, sleeping), pilot(wants(2)))},
		row{"the Scaler is new and has no count", alone(web(0, sleeping, stop), pilot(withoutCount), kept)},
		row{"the Scaler was deleted during the sleep", alone(web(0, sleeping, stop, stopped), kept)},
		row{"the set waits for another one", alone(web(0, asleep(api.Waking, wokenUp, build.Step(api.AwaitsDependency)), stop, stopped),
			pilot(), kept)},
		row{"the set wakes", alone(web(0, waking, stop, stopped), pilot(), kept)},
		row{"the set wakes, and the Scaler requests another count", alone(web(0, waking, stop, stopped), pilot(wants(5)), kept)},
		row{"the set wakes, and the Scaler requests fewer members with a pre hook", alone(web(0, waking, stop, stopped),
			pilot(wants(1), withPreHook), kept)},
		row{"the set wakes, and the Scaler is paused", alone(web(0, waking, stop, stopped), pilot(pausedScaler), kept)},
		row{"a set at zero is needed, and its new Scaler is paused", alone(web(0, asleep(api.Waking)), pilot(pausedScaler))},
		row{"a set at zero is needed, and its paused Scaler requests no members", alone(web(0, asleep(api.Waking),
			withEndedScaling(0)), pilot(pausedScaler, wants(0)))},
		row{"the set wakes, and the Scaler requests no members", alone(web(0, waking, stop, stopped), pilot(wants(0)), kept)},
		row{"the set wakes, and the Scaler requests no members with a pre hook", alone(web(0, waking, stop, stopped),
			pilot(wants(0), withPreHook), kept)},
		row{"the set wakes, and its hook has run", alone(web(0, waking, stop, withRecord(api.PreScaling, startingAfterPause)),
			pilot(withHooks), hookJob("pre", completed), kept)},
		row{"the sleep is lost", alone(web(0, stop, stopped), pilot(), kept)},
		row{"the stop of the sleep has failed, and the set wakes", alone(web(0, waking, stop, withRecord(api.Failed, failedAt(api.Scaling),
			pausedAtZero)), pilot(), kept)},
		row{"the set is awake", alone(web(3, asleep(api.Succeeded, hasWoken), withStop(build.StartedFor(time.Minute)), ended), pilot(), kept)},
	)
}

// TestSleepAndPauseTogether: whichever ends first, the other one holds the set. When both have ended, the pods are back.
func TestSleepAndPauseTogether(t *testing.T) {
	begun := alone(web(3, asleep(api.Stopping), build.WhenScaled(deletes), withEndedScaling(3)), pilot())
	slept, _ := playToEnd(t, begun)
	count := func(in Input) int32 { return *in.Set.Spec.Replicas }
	if stop := api.LoadStop(slept.Set); count(slept) != 0 || !stop.Of(build.Sleep(api.Asleep)) || len(slept.Records) != 1 {
		t.Fatalf("asleep with %d replicas, stop %s", count(slept), build.Words(stop))
	}
	with := func(in Input, sleep *api.Sleep, options ...build.Option) Input {
		in.Set = build.With(in.Set.DeepCopy(), build.WithSleep(sleep))
		in.Scalers = []*v1alpha1.Scaler{build.With(in.Scalers[0].DeepCopy(), options...)}
		end, _ := playToEnd(t, in)
		return end
	}
	both := with(slept, build.Sleep(api.Asleep), pausedScaler)
	for name, orders := range map[string][]Input{
		"the sleep ends first": {with(both, build.Sleep(api.Waking, wokenUp)), with(both, build.Sleep(api.Succeeded, hasWoken))},
		"the pause ends first": {with(both, build.Sleep(api.Asleep), resumed)},
	} {
		for _, in := range orders {
			if stop := api.LoadStop(in.Set); count(in) != 0 || !stop.Pending() || stop.Replicas != 3 || stop.WhenScaled != deletes ||
				len(in.Records) != 1 || in.Records[0].Name != api.StopRecordName(stop.Operation) {
				t.Errorf("%s: %d replicas, stop %s", name, count(in), build.Words(stop))
			}
			end := with(with(in, build.Sleep(api.Waking, wokenUp), resumed), build.Sleep(api.Succeeded, hasWoken))
			if count(end) != 3 || statefulset.WhenScaled(end.Set) != deletes || api.LoadStop(end.Set) != nil || len(end.Records) != 0 {
				t.Errorf("%s: afterwards %d replicas, %s", name, count(end), toJSON(end.Set))
			}
		}
	}
	if end := with(slept, build.Sleep(api.Waking, wokenUp)); count(end) != 3 {
		t.Errorf("without a pause, the set wakes with %d replicas", count(end))
	}
}

// TestSetAtZeroOfScalerStaysThere: a set sleeps, and its Scaler requests no members then. After the wake-up, the Scaler is deleted.
func TestSetAtZeroOfScalerStaysThere(t *testing.T) {
	for hook, options := range map[string][]build.Option{"without a hook": {wants(0)}, "with a pre hook": {wants(0), withPreHook}} {
		in := alone(web(0, asleep(api.Waking, wokenUp), withStop(), withRecord(api.Succeeded, pausedAtZero)), stopOf(build.Stop()),
			pilot(options...))
		end, _ := playToEnd(t, in)
		end.Set = build.With(end.Set.DeepCopy(), asleep(api.Succeeded, hasWoken))
		end, _ = playToEnd(t, end)
		end.Scalers = nil
		if end, _ = playToEnd(t, end); *end.Set.Spec.Replicas != 0 {
			t.Errorf("%s: %d members start", hook, *end.Set.Spec.Replicas)
		}
	}
}

// TestScalerDeletedDuringSleepStillWakes: the Stop has the count.
func TestScalerDeletedDuringSleepStillWakes(t *testing.T) {
	for phase, want := range map[api.Phase]int32{api.Asleep: 0, api.Waking: 3} {
		in := alone(web(0, asleep(phase, wokenUp), withStop(), withRecord(api.Succeeded, pausedAtZero)), stopOf(build.Stop()))
		end, _ := playToEnd(t, in)
		if n := *end.Set.Spec.Replicas; n != want || recordIn(end) != nil {
			t.Errorf("%s: %d replicas, %s", phase, n, build.Words(recordIn(end)))
		}
	}
}

// TestScalerWaitsWhileOperatorStopsSet: the set falls asleep by its operator's own stop. The Scaler is not paused, and must not start the
// members again.
func TestScalerWaitsWhileOperatorStopsSet(t *testing.T) {
	for _, phase := range []api.Phase{api.Stopping, api.Asleep} {
		stops := build.Sleep(phase, func(s *api.Sleep) { s.OwnerStops = true })
		in := observed(web(0, build.WithSleep(stops), withEndedScaling(3)), pilot(withPreHook))
		p := Decide(in)
		for range 3 { // it says so in its status
			for _, a := range p.Actions {
				if in = in.afterAction(a); a.Resource == plan.StatefulSets {
					t.Fatalf("%s: the set is changed: %s", phase, p)
				}
			}
			p = Decide(in)
		}
		if p.Kind == plan.KindDo || p.Reason != api.InProgress {
			t.Errorf("%s: want that the Scaler waits for the sleep: %s; %+v", phase, p, in.Scalers[0].Status)
		}
	}
	if p := Decide(observed(web(0, withEndedScaling(3)), pilot(withPreHook))); !strings.Contains(p.String(), "replicas 0 to 3") {
		t.Errorf("the test is wrong: without the sleep, the Scaler must start the members: %s", p)
	}
}

// counted returns a set with a cleanup template and so many replicas. By its ledger, three pods ran before the latest change of its spec.
func counted(replicas int32, options ...build.Option) *appsv1.StatefulSet {
	before := &api.Ledger{Set: api.SetRef{Name: "web", UID: "uid-web"}, Count: 3, Complete: true}
	set := build.Set("web", append([]build.Option{build.Template("data", "1Gi", "fixed"), build.Replicas(replicas),
		build.Annotation(api.CleanupTemplateAnnotation, "{}")}, options...)...)
	before.Generation = set.Generation - 1
	if _, has := set.Annotations[api.LedgerAnnotation]; !has {
		build.Annotation(api.LedgerAnnotation, before.Encode())(set)
	}
	return set
}

// warningOf returns the message of the plan's first Warning, or "".
func warningOf(p plan.Plan) string {
	for _, a := range p.Actions {
		if a.Note.Warning {
			return a.Note.Message
		}
	}
	return ""
}

// TestScaleDownOrdersRemoval: a record of another operation keeps the claims. It may be the only trace of it.
// Invariants: I1.
func TestScaleDownOrdersRemoval(t *testing.T) {
	db := build.Set("db", build.UID("uid-db"))
	ofDB := build.Stop(func(s *api.Stop) { s.Set = api.SetRef{Name: "db", UID: "uid-db"} })
	for name, row := range map[string]struct {
		record  metav1.Object
		options []build.Option
		orders  bool
	}{
		"nothing holds the pods": {nil, nil, true},
		"the set is stopped":     {resources.MakeStopRecord(counted(1), build.Stop()), nil, false},
		"the set is resized":     {resources.MakeJournal(counted(1), build.Operation(api.Moving)), nil, false},
		"another set is stopped": {resources.MakeStopRecord(db, ofDB), nil, true},
		"it has an operator":     {nil, []build.Option{build.ControlledBy("Database", "main")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			lists := build.EmptyLists()
			lists["statefulsets"] = []metav1.Object{counted(1, row.options...)}
			if row.record != nil {
				lists["controllerrevisions"] = []metav1.Object{row.record}
			}
			in, err := New(kube.NewClient(lists.Serve()), build.Settings(), slog.New(slog.DiscardHandler)).observe(t.Context(),
				events.Ref{Namespace: build.Namespace, Name: "web"})
			if err != nil {
				t.Fatal(err)
			}
			p := Decide(in)
			ledger, warning := build.StoredLedger(p), warningOf(p)
			if ledger == nil || (ledger.Removing != nil) != row.orders || ledger.Complete != row.orders {
				t.Errorf("the ledger becomes %+v", ledger)
			}
			if told := strings.Contains(warning, "kubectl drydock cleanup -n shop sts/web --from 1"); told == row.orders {
				t.Errorf("the warning is %q", warning)
			}
		})
	}
}

// TestNewScalerHoldsPods: the set has lost the record of its Scaler, and another client scales it down. The Scaler restores its count.
// Invariants: I1.
func TestNewScalerHoldsPods(t *testing.T) {
	for name, row := range map[string]struct {
		scalers []*v1alpha1.Scaler
		orders  bool
	}{"no Scaler": {nil, true}, "a Scaler without a record": {[]*v1alpha1.Scaler{pilot()}, false}} {
		p := Decide(Input{Now: build.Now, Namespace: build.Namespace, Name: "web", Set: counted(1), Scalers: row.scalers})
		if l := build.StoredLedger(p); l == nil || (l.Removing != nil) != row.orders {
			t.Errorf("%s: the ledger becomes %+v", name, l)
		}
	}
}

// TestOrderOfUserIsCarriedOut: the request goes, and a wrong one gets an answer.
func TestOrderOfUserIsCarriedOut(t *testing.T) {
	before := &api.Ledger{Set: api.SetRef{Name: "web", UID: "uid-web"}, Count: 3, Generation: 1}
	incomplete := build.Annotation(api.LedgerAnnotation, before.Encode())
	for from, row := range map[string]struct {
		orders  bool
		warning string
	}{"1": {true, ""}, "0": {false, "nothing is cleaned up: the StatefulSet has the ordinals from 0 to before 1"}} {
		set := counted(1, incomplete)
		n, err := strconv.Atoi(from)
		if err != nil {
			t.Fatal(err)
		}
		set.Annotations[api.CleanupFromAnnotation] = members.OrderFrom(set, n)
		p := Decide(Input{Now: build.Now, Namespace: build.Namespace, Name: "web", Set: set})
		ledger, warning := build.StoredLedger(p), warningOf(p)
		if (ledger.Removing != nil) != row.orders || !strings.Contains(warning, row.warning) {
			t.Errorf("from %s: %s: %+v, warning %q", from, p, ledger, warning)
		}
		if !strings.Contains(p.String(), "-cleanup-from") {
			t.Errorf("from %s: the request stays: %s", from, p)
		}
	}
}

// TestRejectedLedgerKeepsNoScaler: the API server rejects the write of the ledger. Without a Scaler, the event fails.
func TestRejectedLedgerKeepsNoScaler(t *testing.T) {
	for name, scalers := range map[string][]*v1alpha1.Scaler{"no Scaler": nil, "a Scaler": {pilot()}} {
		p := Decide(Input{Now: build.Now, Namespace: build.Namespace, Name: "web", Set: counted(3), Scalers: scalers, Rejected: "forbidden"})
		if again := build.StoredLedger(p) != nil; again == (scalers != nil) {
			t.Errorf("%s: %s", name, p)
		}
	}
}

// TestScaleUpKeepsWhatHasBegun: an ordinal with a cleanup pod stays in the order. Another one leaves it.
func TestScaleUpKeepsWhatHasBegun(t *testing.T) {
	for name, row := range map[string]struct {
		set  string
		want *api.Span
	}{"its cleanup pod runs": {"web", &api.Span{Start: 2, End: 3}}, "that of another set runs": {"db", nil}} {
		before := &api.Ledger{Set: api.SetRef{Name: "web", UID: "uid-web"}, Count: 3, Complete: true, Orders: 1,
			Removing: &api.Removal{Span: api.Span{Start: 1, End: 3}, Order: 1}}
		set := counted(3)
		before.Generation = set.Generation - 1
		build.Annotation(api.LedgerAnnotation, before.Encode())(set)
		pod := build.Pod("web-2", nil, build.LinkOf(api.Link{Operation: build.ID, Role: api.RoleCleaner, Namespace: build.Namespace,
			Set: api.SetRef{Name: row.set, UID: "uid-web"}}), build.Label(api.OperationLabel, build.ID))
		lists := build.EmptyLists()
		lists["statefulsets"], lists["pods"] = []metav1.Object{set}, []metav1.Object{pod}
		in, err := New(kube.NewClient(lists.Serve()), build.Settings(), slog.New(slog.DiscardHandler)).observe(t.Context(),
			events.Ref{Namespace: build.Namespace, Name: "web"})
		if err != nil {
			t.Fatal(err)
		}
		l := build.StoredLedger(Decide(in))
		if l == nil || (l.Removing == nil) != (row.want == nil) || row.want != nil && l.Removing.Span != *row.want {
			t.Errorf("%s: the ledger becomes %+v", name, l)
		}
	}
}

// TestLedgerGoesWithTheTemplate: nothing else would remove it. A user's order is answered.
func TestLedgerGoesWithTheTemplate(t *testing.T) {
	for template, goes := range map[string]bool{"": true, "{}": false} {
		set := counted(3, build.Annotation(api.CleanupTemplateAnnotation, template))
		p := Decide(Input{Now: build.Now, Namespace: build.Namespace, Name: "web", Set: set})
		if strings.Contains(p.String(), "-members") != goes {
			t.Errorf("with template %q: %s", template, p)
		}
	}
	asked := counted(3, build.Annotation(api.CleanupTemplateAnnotation, ""), build.Annotation(api.CleanupFromAnnotation, "1"))
	p := Decide(Input{Now: build.Now, Namespace: build.Namespace, Name: "web", Set: asked})
	if !strings.Contains(warningOf(p), "has no cleanup pod template") || !strings.Contains(p.String(), "-cleanup-from") {
		t.Errorf("the order stays: %s", p)
	}
}
