package model

import (
	"slices"
	"testing"
	"time"

	"drydock.dev/shared/api"
)

// Every interleaving of everything that can happen, within the bounds of each scenario. Where the time is bounded, the nearest states are
// visited first, so the shortest story is found in any case.
func TestEveryInterleaving(t *testing.T) {
	for _, s := range []Scenario{
		{Name: "one member, rolling", Members: 1, Strategy: api.StrategyRolling},
		{Name: "one member, whole", Members: 1, Strategy: api.StrategyWhole, Prompt: true},
		{Name: "two members, rolling, a prompt platform", Members: 2, Strategy: api.StrategyRolling, Prompt: true},
		{Name: "one member, rolling, one fault, a prompt platform", Members: 1, Strategy: api.StrategyRolling, Faults: 1, Prompt: true},
		{Name: "two members, whole, a prompt platform", Members: 2, Strategy: api.StrategyWhole, Prompt: true},
		{Name: "two members, whole, parallel, one fault, a prompt platform", Members: 2, Strategy: api.StrategyWhole, Parallel: true, Faults: 1, Prompt: true},
		{Name: "one member, rolling, two faults, a prompt platform", Members: 1, Strategy: api.StrategyRolling, Faults: 2, Prompt: true},
	} {
		t.Run(s.Name, func(t *testing.T) {
			r := Explore(s, Bounds{States: 20_000_000, Until: until(t, 8*time.Second)})
			t.Log(r)
			if r.Problem != "" {
				tell(t, r.Story)
				t.Error(r.Problem)
			}
		})
	}
}

// act is what somebody does at some moment of a fair run.
type act struct {
	when func(*World) bool
	what string
}

func phase(ordinal int, p api.MemberPhase) func(*World) bool {
	return func(w *World) bool {
		record := w.record()
		return record != nil && record.Member(ordinal).Phase == p
	}
}

// with runs fairly, and takes each act as soon as its moment has come.
func with(t *testing.T, s Scenario, acts ...act) *World {
	t.Helper()
	w, story := s.World(), []string(nil)
	for turn := range 2000 {
		steps := w.steps()
		if len(acts) == 0 && len(steps) == 0 {
			if problem := w.rest(); problem != "" {
				tell(t, story)
				t.Fatal(problem)
			}
			return w
		}
		var step Step
		if len(steps) > 0 {
			step = steps[turn%len(steps)]
		}
		if len(acts) > 0 && acts[0].when(w) {
			for _, fault := range w.disturbances() {
				if fault.What == acts[0].what {
					step, acts = fault, acts[1:]
					break
				}
			}
		}
		if step.do == nil {
			break
		}
		w, story = w.after(step), append(story, step.String())
		if problem := w.check(); problem != "" {
			tell(t, story)
			t.Fatal(problem)
		}
	}
	tell(t, story)
	t.Fatalf("it does not end, or %d acts were not possible: %s", len(acts), w.summary())
	return nil
}

// What the model has found, as runs with one or two acts.
func TestStoriesOfTheModel(t *testing.T) {
	one := Scenario{Members: 1, Strategy: api.StrategyRolling, Faults: 2}
	for name, row := range map[string]struct {
		acts []act
		end  api.Phase // empty: the set is gone
	}{
		"the claim of a held member is deleted, and the final pass takes too long": {
			[]act{{phase(0, api.MemberFinalPass), "deletes claim data-web-0"}, {phase(0, api.MemberFinalPass), "the next deadline passes"}}, api.Failed},
		"the claim is deleted while the mover uses it":          {[]act{{phase(0, api.MemberWaiting), "deletes claim data-web-0"}}, api.Failed},
		"the claim is deleted before a mover is made":           {[]act{{phase(0, api.MemberCopying), "deletes claim data-web-0"}}, api.Failed},
		"the successor is deleted while the member is held":     {[]act{{successorBound, "deletes claim data-web-0"}}, api.Succeeded},
		"the set is deleted when the member starts":             {[]act{{phase(0, api.MemberStarting), "deletes StatefulSet web"}}, ""},
		"the set is deleted in the middle of the swap":          {[]act{{successorBound, "deletes StatefulSet web"}}, ""},
		"the hold is taken off during the final pass":           {[]act{{phase(0, api.MemberFinalPass), "takes finalizer drydock.dev/hold off web-0"}}, api.Succeeded},
		"the hold is taken off when the claim is about to go":   {[]act{{switchFinalizerOn, "takes finalizer drydock.dev/hold off web-0"}}, api.Succeeded},
		"the held pod is deleted by force before it has ended":  {[]act{{phase(0, api.MemberStopping), "deletes pod web-0 by force"}}, api.Succeeded},
		"the node stops to report while the pod ends":           {[]act{{phase(0, api.MemberStopping), "stops to report"}}, api.Succeeded},
		"the operation is aborted during the final pass":        {[]act{{phase(0, api.MemberFinalPass), "aborts"}}, api.Failed},
		"the set is scaled to zero while its member is swapped": {[]act{{phase(0, api.MemberSwapping), "scales down by one"}}, api.Succeeded},
	} {
		t.Run(name, func(t *testing.T) {
			w := with(t, one, row.acts...)
			if record := w.record(); row.end != "" && (record == nil || record.Phase != row.end) || row.end == "" && w.set() != nil {
				t.Errorf("it ends as %s", w.summary())
			}
		})
	}
}

// switchFinalizerOn: the claim is marked, and restore has decided to delete it.
func switchFinalizerOn(w *World) bool {
	claim := w.claim("data-web-0")
	return claim != nil && slices.Contains(claim.Finalizers, api.SwitchFinalizer) && claim.DeletionTimestamp == nil && len(w.functions[restoreRole].pending) > 0
}

// successorBound: the member is still held, and its claim is on the new volume.
func successorBound(w *World) bool {
	claim := w.claim("data-web-0")
	return phase(0, api.MemberSwapping)(w) && claim != nil && claim.Status.Phase == "Bound" && claim.Spec.VolumeName != "pv-data-web-0.1"
}
