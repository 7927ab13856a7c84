package pauseowner

import (
	"cmp"
	"errors"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/test/kit/build"
)

// TestRejectedResumeOfAFormerOwnerRefusesNoSleep: web and db of one operator are in one group. The record of a former sleep of web still
// has a ScaledObject that is paused, because a webhook rejects its resume. The next sleep of web waits until db will sleep, too. It
// must not try that resume while it waits: a rejected write refuses the sleep.
func TestRejectedResumeOfAFormerOwnerRefusesNoSleep(t *testing.T) {
	shop := build.InGroup("shop")
	keda := kedaScaler(t).held(t, owners.ByPause, "aaaaaaaaaaaa")
	record := keda.recorded(owners.ByPause)
	record.Row = keda.Row
	planned := build.Sleep(api.Planned, build.SleepDue(time.Minute))
	record.Link.Operation = "aaaaaaaaaaaa"
	in := sleepAsking(planned, []Owner{ownerWithStop(t)}, shop)
	in.OwnerRecords = []OwnerRecord{record}
	if p := Decide(in); p.Kind != plan.KindDo {
		t.Fatalf("the test is wrong: without a sibling that is awake, the operator must be stopped for the sleep: %s", p)
	}
	in.Siblings = []*appsv1.StatefulSet{build.Set("db", build.Replicas(1), shop)} // its sleep is decided next
	if p := Decide(in); p.Kind != plan.KindWait || p.Reason != api.SiblingAwake || len(p.Actions) != 0 {
		t.Errorf("the sleep of web must only wait for db. A write that is rejected would refuse it: %s", p)
	}
}

// twoOwners returns the records of an operator and of an autoscaler of KEDA, which a sleep has paused.
func twoOwners(t *testing.T) []OwnerRecord {
	t.Helper()
	database, keda := ownerWithPause(t).held(t, owners.ByPause, build.SleepID), kedaScaler(t).held(t, owners.ByPause, build.SleepID)
	a, b := database.recorded(owners.ByPause), keda.recorded(owners.ByPause)
	a.Row, b.Row = database.Row, keda.Row
	return []OwnerRecord{a, b}
}

// TestTwoStuckOwnersAreReportedOnce: pause-owner has lost its rights to both owners of a set.
func TestTwoStuckOwnersAreReportedOnce(t *testing.T) {
	records := twoOwners(t)
	records[0].Object, records[0].Denied = nil, errors.New("mariadbs is forbidden")
	records[1].Object, records[1].Denied = nil, errors.New("scaledobjects is forbidden")
	sleep, writes := build.Sleep(api.Succeeded), 0
	for range 20 { // the executor repeats the decision until there is nothing left to do
		p := Decide(Input{Observed: build.World(build.Set("web", build.WithSleep(sleep))), OwnerRecords: records})
		if p.Kind != plan.KindDo {
			break
		}
		writes, sleep = writes+1, build.StoredSleep(p)
	}
	both := strings.Contains(sleep.OwnerProblem, "mariadbs") && strings.Contains(sleep.OwnerProblem, "scaledobjects")
	if writes != 1 || !both {
		t.Errorf("%d writes: %s", writes, sleep.OwnerProblem)
	}
}

// TestTwoRejectedResumesAreReported: a freeze of changes rejects the resume of both owners.
func TestTwoRejectedResumesAreReported(t *testing.T) {
	in := Input{Observed: build.World(build.Set("web", build.WithSleep(build.Sleep(api.Succeeded)))), OwnerRecords: twoOwners(t)}
	for _, r := range in.OwnerRecords {
		in.Failures = append(in.Failures, rejectedWrite(r.Resource, r.Owner.Name, errors.New("frozen for "+r.Owner.Kind)))
	}
	stored := build.StoredSleep(Decide(in))
	if stored == nil || !strings.Contains(stored.OwnerProblem, "for MariaDB") || !strings.Contains(stored.OwnerProblem, "for ScaledObject") {
		t.Errorf("both owners stay paused, and the set does not say so: %s", build.Words(stored))
	}
}

// TestRejectedResumeKeepsNoOtherOwnerPaused: the API server rejects the resume of one owner. The other one is resumed.
func TestRejectedResumeKeepsNoOtherOwnerPaused(t *testing.T) {
	in := Input{Observed: build.World(build.Set("web", build.WithSleep(build.Sleep(api.Succeeded)))), OwnerRecords: twoOwners(t)}
	in = in.withDenial("admission webhook denied the request")
	if p := Decide(in); !writesTo(p, in.OwnerRecords[1].Resource) {
		t.Errorf("nothing rejects the resume of the second owner: %s", p)
	}
}

// TestNextOperationHoldsPausedScaler: a sleep has paused the ScaledObject of the set, so KEDA has deleted its autoscaler. The next
// operation begins before that pause has ended. It must hold the ScaledObject, too, or KEDA scales the set during the operation.
// Invariants: I5.
func TestNextOperationHoldsPausedScaler(t *testing.T) {
	soon := operation.Moment(time.Now().Add(time.Hour))
	sleep := build.Sleep(api.Planned, build.SleepDue(time.Minute), func(s *api.Sleep) { s.Deadline, s.Operation = soon, "0123456789ab" })
	resize := build.Operation(api.Planned, build.DerivedID, func(r *api.Resize) { r.Deadline = soon })
	keda := kedaScaler(t).held(t, owners.ByPause, build.SleepID)
	doc := api.PausedOwner{Version: api.PauseVersion, APIVersion: keda.Ref.APIVersion, Kind: keda.Ref.Kind, Resource: "scaledobjects",
		Name: keda.Ref.Name, UID: keda.Ref.UID}
	record := objectList{resources.MakeOwnerRecord(build.Set("web"), build.Sleep(api.Asleep), doc)}
	there, other := objectList{keda.Object}, kedaScaler(t)
	other.Object.SetUID("uid-other")
	for name, row := range map[string]struct {
		set            []build.Option
		record, scaler objectList
		held           bool
	}{
		"a sleep after a sleep": {[]build.Option{build.WithSleep(sleep)}, record, there, true},
		"a resize while the set sleeps": {[]build.Option{build.Status(resize), build.WithSleep(build.Sleep(api.Asleep)), build.Replicas(0)},
			record, there, true},
		"another ScaledObject has its name": {[]build.Option{build.WithSleep(sleep)}, record, objectList{other.Object}, false},
		"no record names the ScaledObject":  {[]build.Option{build.WithSleep(sleep)}, nil, there, false},
		"the owners of the set are ignored": {[]build.Option{build.WithSleep(sleep), build.Annotation(api.OwnerPolicyAnnotation, "ignore")},
			record, there, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := Decide(observeSet(t, build.Lists{"statefulsets": objectList{build.Set("web", row.set...)},
				"namespaces": objectList{allowingNamespace()}, "controllerrevisions": row.record, "scaledobjects": row.scaler}))
			if held := writesTo(p, keda.Resource); held != row.held {
				t.Errorf("it is held: %t, want %t: %s", held, row.held, p)
			}
		})
	}
}

// TestStopByOwnerAboveIsRecorded: idle-timeout does not read owners, so only the record tells that the stop may concern sets of other
// controllers.
func TestStopByOwnerAboveIsRecorded(t *testing.T) {
	for controller, below := range map[string]string{"main": "", "dc1": "CassandraDatacenter"} {
		o := ownerWithStop(t)
		in := sleepAsking(build.Sleep(api.Planned), []Owner{o})
		in.Set = build.With(in.Set, build.ControlledBy(cmp.Or(below, o.Ref.Kind), controller))
		if below == "" {
			in.Set.OwnerReferences[0].UID = o.Object.GetUID()
		}
		p := prepareStop(in, operation.Of(in.Set).Sleep, o)
		next := build.StoredSleep(p)
		if next == nil || !next.OwnerStops || next.StoppedOwner != o.Object.GetUID() {
			t.Errorf("controller %s: %s", controller, p)
			continue
		}
		in.Set = build.With(in.Set, build.WithSleep(next))
		if record := createdRecord(t, in); record.UID != next.StoppedOwner {
			t.Errorf("controller %s: %+v", controller, record)
		}
	}
}

// TestNoOwnerIsStoppedForARefusedSleep: the operator of a set can be stopped, and something else would give the set replicas. Nothing of
// that is new when the sleep is decided. The sleep is refused, and tried again every ten minutes. The operator must not stop the database
// for it.
func TestNoOwnerIsStoppedForARefusedSleep(t *testing.T) {
	noConsent := kedaScaler(t)
	noConsent.Allowed = false
	for name, row := range map[string]struct {
		others   []Owner
		rejected bool // the API server rejects the writes to the others, and no dry run foresees that
		stops    bool
	}{
		"an autoscaler scales from zero": {[]Owner{{Ref: metav1.OwnerReference{Kind: autoscalerKind, Name: "web"},
			Problem: "its minReplicas is 0, so it also scales the set up from zero; set minReplicas to 1"}}, false, false},
		"KEDA's resource does not allow a pause": {[]Owner{noConsent}, false, false},
		"the pause of KEDA is rejected":          {[]Owner{kedaScaler(t)}, true, false},
		"the pause of KEDA is accepted":          {[]Owner{kedaScaler(t)}, false, true},
		"nothing else scales the set":            {nil, false, true},
	} {
		for operator, first := range map[string]Owner{"it can only stop": ownerWithStop(t), "it can stop and pause": ownerWithBoth(t)} {
			t.Run(name+"/"+operator, func(t *testing.T) {
				sleep := build.Sleep(api.Planned, build.SleepDue(time.Minute))
				in := sleepAsking(sleep, append([]Owner{first}, row.others...))
				stopped := false
				for range 20 {
					p := Decide(in)
					if stored := build.StoredSleep(p); stored != nil {
						sleep = stored
						in = sleepAsking(sleep, in.Owners).withRecords(in.OwnerRecords...)
					}
					for _, a := range p.Actions {
						switch a.Resource {
						case first.Resource:
							in.Owners[0].Object = patched(t, in.Owners[0].Object, []plan.Action{a})
							stopped = stopped || first.Row.Held(owners.ByStop, in.Owners[0].Object)
						case plan.ControllerRevisions:
							in = in.withRecords(in.Owners[0].recorded(owners.ByStop))
						case kedaScaler(t).Resource:
							if row.rejected {
								in.Rejected, in.NotForeseen = errors.New("denied by policy"), true
							} else {
								in.Owners[1].Object = patched(t, in.Owners[1].Object, []plan.Action{a})
							}
						}
					}
				}
				if stopped != row.stops || sleep.Phase.Terminal() == row.stops {
					t.Errorf("the operator is told to stop the set: %t, want %t; the sleep: %s", stopped, row.stops, build.Words(sleep))
				}
			})
		}
	}
}
