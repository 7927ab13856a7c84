package pauseowner

import (
	"errors"
	"strings"
	"testing"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/test/kit/build"
)

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
