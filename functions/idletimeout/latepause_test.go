package idletimeout

import (
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// TestPauseThatComesAfterTheWakeUpEnds: a process writes the three parts of a scale-down: the record, the set, the pause of the Scaler. An
// activity comes after the second write, so another process wakes the set. The Scaler is not paused then, so the wake-up does not write it,
// and the pause of the first process succeeds: the Scaler is still as that process has read it. The Scaler then scales the set to zero.
// Drydock alone has paused it, and must end that pause: the set is in use.
func TestPauseThatComesAfterTheWakeUpEnds(t *testing.T) {
	set := scaledByPilot(web(build.LastActivity(9*time.Hour), sleep(api.Stopping, due)))
	s := simulation{t: t, now: build.Now, sets: []*appsv1.StatefulSet{set}}
	first := Decide(on(s.sets...).withScaler(false))
	t.Logf("first process: %s", first)
	for _, a := range first.Actions {
		if a.Resource == plan.StatefulSets && a.Verb == plan.VerbPatch {
			s.patch(a)
		}
	}
	for range 2 { // the second process stores the activity, and wakes the set
		p := Decide(on(s.sets...).withScaler(false).withSignal(events.Activity, 0))
		t.Logf("second process: %s", p)
		for _, a := range p.Actions {
			if a.Resource == plan.Scalers {
				t.Fatalf("the wake-up writes a Scaler that is not paused: %s", a)
			}
			if a.Verb == plan.VerbPatch {
				s.patch(a)
			}
		}
	}
	if s.sleepOf("web").Phase != api.Waking {
		t.Fatal(build.Words(s.sleepOf("web")))
	}
	// now the pause of the first process, and scale-hooks obeys it
	s.sets[0] = scaledByPilot(build.With(s.sets[0], zero, build.ReplicaCounts(0, 0)))
	in := on(s.sets...).withScaler(false)
	build.PausedByDrydock()(in.Scalers["web"])
	p := Decide(in)
	ends := func(a plan.Action) bool {
		return a.Resource == plan.Scalers && slices.Contains(a.Words, "paused = false")
	}
	if next := build.StoredSleep(p); !slices.ContainsFunc(p.Actions, ends) || next == nil || next.Phase != api.Waking {
		t.Errorf("the set is in use and stays at zero, because its Scaler stays paused by Drydock: %s; %s", p, build.Words(next))
	}
}
