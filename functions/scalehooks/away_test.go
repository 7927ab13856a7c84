package scalehooks

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/events"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// back is the record of a set at zero whose members come back after a pause.
func back(s *api.Scale) { s.Previous, s.Target, s.Paused = 0, 3, true }

var (
	cleansUp = edited(func(s *v1alpha1.Scaler) { s.Spec.Hooks.Post = &v1alpha1.Hook{Cleanup: &v1alpha1.HookCleanup{}} })
	// drained has a hook before, and none for a failure.
	drained = edited(func(s *v1alpha1.Scaler) {
		s.Spec.Hooks.Pre = &v1alpha1.Hook{Job: &v1alpha1.HookJob{Template: runtime.RawExtension{Raw: []byte(template)}}}
	})
	asking = edited(func(s *v1alpha1.Scaler) { s.Spec.Hooks.Pre = &v1alpha1.Hook{Event: &v1alpha1.HookEvent{}} })
)

// TestMembersStayAwayUntilTheCountRises: while the record says paused, cleanup-pod deletes no claim of the set.
func TestMembersStayAwayUntilTheCountRises(t *testing.T) {
	for name, c := range map[string]struct {
		in   Input
		want bool
	}{
		"the pause ends":           {on(web(0, records(api.Succeeded, away)), pilot(hooked)), true},
		"the pre hook has failed":  {on(web(0, records(api.PreScaling, back)), pilot(drained), hook("pre", failed)), true},
		"it is retried":            {on(web(0, records(api.Failed, gaveUp(api.PreScaling), back)), pilot(retry)), true},
		"others have started some": {on(web(1, records(api.Failed, gaveUp(api.PreScaling), back)), pilot(retry)), true},
		"the count rises":          {on(web(0, records(api.PreScaling, back)), pilot()), false},
		"another client scales to zero what is to be paused": {on(web(0, quiet(3)), pilot(pausing)), true},
		"the members are back":                               {on(web(3, records(api.Succeeded, away)), pilot()), false},
		"the record is lost while they come back":            {on(web(0), pilot()), true},
		"the record is lost, and none are wanted":            {on(web(0), pilot(wants(0))), false},
		"the Scaler goes while they come back":               {on(web(0, records(api.PreScaling, back))), true},
	} {
		t.Run(name, func(t *testing.T) {
			p := Decide(c.in)
			if record := stored(p); record == nil || record.Paused != c.want {
				t.Errorf("%s\nstores %s, want a record with paused = %t", p, summary(record), c.want)
			}
		})
	}
}

// TestScalerThatGoesDuringAPauseEndsTheScaling: an active record would keep the set from every other operation for ever.
func TestScalerThatGoesDuringAPauseEndsTheScaling(t *testing.T) {
	in := on(web(0, records(api.Scaling, away)))
	record := stored(Decide(in))
	if record == nil || record.Active() || !record.Paused || !record.Adopts {
		t.Fatalf("%s\nstores %s, want a record that has ended, is paused and adopts", Decide(in), summary(record))
	}
	comesToRest(t, in)
}

// TestEndOfAPauseThatHasFailedBringsMembersBack: idle-timeout ends a pause to wake a set, and cannot ask for a retry.
func TestEndOfAPauseThatHasFailedBringsMembersBack(t *testing.T) {
	for _, at := range []api.Phase{api.PreScaling, api.Scaling, api.PostScaling} {
		live := map[api.Phase]int32{api.PreScaling: 2}[at]
		p := Decide(on(web(live, records(api.Failed, gaveUp(at), away)), pilot()))
		if record := stored(p); record == nil || record.Phase != api.PreScaling || record.Target != 3 {
			t.Errorf("failed at %s: %s, want a scaling to 3", at, p)
		}
		if p := Decide(reported(on(web(live, records(api.Failed, gaveUp(at), away)), pilot(pausing)))); p.Kind == plan.KindDo {
			t.Errorf("failed at %s and still paused: %s, want nothing without a retry", at, p)
		}
	}
}

// TestPauseWithACleanupHookSucceeds: cleanup-pod leaves the claims of a paused set alone, so a pause must not wait for it.
func TestPauseWithACleanupHookSucceeds(t *testing.T) {
	in := on(web(0, records(api.PostScaling, away)), pilot(pausing, cleansUp))
	in.LeftBehind = []string{"data-web-0", "data-web-1", "data-web-2"}
	if p := Decide(in); p.Reason != api.ScalingCompleted {
		t.Errorf("%s, want that the scaling is completed", p)
	}
}

// TestPauseThatCannotBePutBackFails: a report alone would keep the record active for ever.
func TestPauseThatCannotBePutBackFails(t *testing.T) {
	p := Decide(on(web(1, deletesClaims, records(api.Scaling, away, overdue)), pilot(pausing)))
	if record := stored(p); record == nil || record.Phase != api.Failed || record.Reason != api.PauseDeletesClaims {
		t.Errorf("%s, want that the scaling fails", p)
	}
}

// TestManifestWithoutACountLosesNoPausedMembers: kubectl replace with the first manifest removes spec.replicas.
func TestManifestWithoutACountLosesNoPausedMembers(t *testing.T) {
	want := "do CountAdopted: patch scalers.v1alpha1.drydock.dev pilot {replicas = 3}"
	if p := Decide(on(web(0, records(api.Succeeded, away)), pilot(pausing, wishless))); p.String() != want {
		t.Errorf("got  %s\nwant %s", p, want)
	}
}

// TestAnswerOfAFunctionIsPrintable: the status is shown in terminals.
func TestAnswerOfAFunctionIsPrintable(t *testing.T) {
	const key = "key"
	in := on(web(2, records(api.PreScaling, func(s *api.Scale) { s.Ask = &api.Ask{Times: 1, Keys: []string{sumOf(key)}} })), pilot(asking))
	in.Answer = &events.HookAnswer{Operation: build.ID, Hook: preHook, Key: key, Failed: true, Message: "\x1b[2J\u202eno\nroom"}
	if record := stored(Decide(in)); record == nil || strings.ContainsAny(record.Message, "\x1b\u202e\n") {
		t.Errorf("the record quotes %s", summary(record))
	}
}

// TestHugeDeadlinesDoNotOverflow: idle-timeout adds two of them up.
func TestHugeDeadlinesDoNotOverflow(t *testing.T) {
	huge := v1alpha1.Deadline("2562047h").Or(time.Minute)
	if sum := huge + huge; sum <= 0 {
		t.Errorf("two deadlines are %s", sum)
	}
}
