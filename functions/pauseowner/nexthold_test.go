package pauseowner

import (
	"testing"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/resources"
	"drydock.dev/test/kit/build"
)

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
