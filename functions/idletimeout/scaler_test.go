package idletimeout

import (
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// scaled stores on the set that its Scaler, pilot, has scaled it, last from 3 to the count that it has.
func scaled(set *appsv1.StatefulSet) *appsv1.StatefulSet {
	record := &api.Scale{Header: api.Header{Version: api.RecordVersion, Operation: build.ID, Kind: api.KindScale, Phase: api.Succeeded, Attempt: 1,
		Set: api.SetRef{Name: set.Name, UID: set.UID}}, Scaler: api.ScalerRef{Name: "pilot", UID: "uid-pilot"},
		Previous: 3, Target: *set.Spec.Replicas, Paused: *set.Spec.Replicas == 0}
	build.Annotation(api.ScaleAnnotation, record.Encode())(set)
	return set
}

// by is the same with a Scaler of the first set.
func (in Input) by(paused bool) Input {
	count := int32(3)
	in.Scalers = map[string]*v1alpha1.Scaler{in.Name: {ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: "pilot", UID: "uid-pilot", ResourceVersion: "5"},
		Spec: v1alpha1.ScalerSpec{Target: in.Name, Replicas: &count, Paused: paused}}}
	return in
}

// TestWakeUnpausesTheScalerFirst: if the wake-up was written and the Scaler was not, as after a conflict or a crash, the sleep would end at zero
// as if the user had paused the Scaler, and no activity would wake the set any more.
func TestWakeUnpausesTheScalerFirst(t *testing.T) {
	for name, in := range map[string]Input{
		"asleep": on(scaled(web(zero, build.Active(0), sleep(api.Asleep, build.ScaledDown(time.Minute))))).by(true),
		"it was to start after another set": on(scaled(web(zero, sleep(api.Waking, due, build.ScaledDown(time.Minute), build.Told(api.DependencyFirst, "")),
			build.Active(0)))).by(true),
		"on its way": on(scaled(web(build.Active(0), sleep(api.Stopping, due, build.ScaledDown(time.Minute))))).by(true),
	} {
		p := Decide(in)
		scaler := slices.IndexFunc(p.Actions, func(a plan.Action) bool { return a.Resource == plan.Scalers })
		set := slices.IndexFunc(p.Actions, func(a plan.Action) bool { return a.Resource == plan.StatefulSets })
		if scaler < 0 || set < 0 || scaler > set {
			t.Errorf("%s: %s, want the Scaler before the set", name, p)
		}
	}
}

// TestPausedScalerIsNotPutToSleep: the pause is a person's, and the wake-up would end it.
func TestPausedScalerIsNotPutToSleep(t *testing.T) {
	if p := Decide(on(scaled(web())).by(true)); p.Kind == plan.KindDo {
		t.Errorf("%s, want nothing", p)
	}
	if p := Decide(on(scaled(web())).by(false)); p.Reason != api.SleepDecided {
		t.Errorf("without a pause: %s, want a sleep", p)
	}
}

// TestLostSleepOfAPausedScalerKeepsItsRecord: the hook before runs, and a manifest removes the set's annotations. The Scaler still scales it to
// zero, and the record is all that tells of the sleep.
func TestLostSleepOfAPausedScalerKeepsItsRecord(t *testing.T) {
	asleep := build.Sleep(api.Stopping, build.ScaledDown(time.Minute))
	runs, stopped := scaled(web()), scaled(web(zero))
	in := on(runs).by(true)
	in.Records["web"] = []Record{recordOf(runs, asleep)}
	if p := Decide(in); p.Kind == plan.KindDo {
		t.Errorf("it runs: %s, want nothing", p)
	}
	in = on(stopped).by(true)
	in.Records["web"] = []Record{recordOf(stopped, asleep)}
	if p := Decide(in); p.Reason != api.WakingUp {
		t.Errorf("it is at zero: %s, want that it wakes up", p)
	}
}
