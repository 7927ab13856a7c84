package model

import (
	"cmp"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"drydock.dev/shared/api"
	"drydock.dev/test/seed"
)

// The test explores every interleaving of all steps, within the bounds of each scenario. The exploration visits the nearest states first,
// so that a run with a limit also finds the shortest story.
func TestEveryInterleavingKeepsInvariants(t *testing.T) {
	for _, s := range []Scenario{
		{Name: "one member, rolling", Members: 1, Strategy: api.StrategyRolling},
		{Name: "one member, whole", Members: 1, Strategy: api.StrategyWhole, Prompt: true},
		{Name: "two members, rolling, a prompt platform", Members: 2, Strategy: api.StrategyRolling, Prompt: true},
		{Name: "one member, rolling, one fault, a prompt platform", Members: 1, Strategy: api.StrategyRolling, Faults: 1, Prompt: true},
		{Name: "two members, whole, a prompt platform", Members: 2, Strategy: api.StrategyWhole, Prompt: true},
		{Name: "two members, whole, parallel, one fault, a prompt platform",
			Members: 2, Strategy: api.StrategyWhole, Parallel: true, Faults: 1, Prompt: true},
		{Name: "one member, rolling, two faults, a prompt platform", Members: 1, Strategy: api.StrategyRolling, Faults: 2, Prompt: true},
	} {
		t.Run(s.Name, func(t *testing.T) {
			states := statesToVisit(t)
			r := Explore(s, states)
			t.Log(r)
			// A fault of the model can end the exploration after a few states. The smallest scenario has about eight hundred.
			if r.Problem == "" && (r.States < 700 || r.States < states && !r.Complete || r.Complete && r.Ends == 0) {
				t.Errorf("explored %s, which is not enough to show anything", r)
			}
			if r.Problem != "" {
				logStory(t, r.Story)
				t.Error(r.Problem)
			}
		})
	}
}

// act is a fault at a certain moment of a fair run.
type act struct {
	when func(*World) bool
	what string
	// until delays the further steps of second processes; nil means no delay.
	until func(*World) bool
}

// awaited removes the steps of second processes while they are delayed.
func (a act) awaited(w *World, steps []Step) []Step {
	if a.until == nil || a.until(w) {
		return steps
	}
	return slices.DeleteFunc(steps, func(s Step) bool { return strings.HasPrefix(s.Who, "second ") })
}

func phase(ordinal int, p api.MemberPhase) func(*World) bool {
	return func(w *World) bool {
		record := w.record()
		return record != nil && record.Member(ordinal).Phase == p
	}
}

// runWithActs runs fairly, and takes each act as soon as its moment has come.
func runWithActs(t *testing.T, s Scenario, acts ...act) *World {
	t.Helper()
	w, story, last := s.World(), []string(nil), act{}
	for turn := range 2000 {
		steps := last.awaited(w, w.steps())
		if len(acts) == 0 && len(steps) == 0 {
			if problem := w.checkEnd(); problem != "" {
				logStory(t, story)
				t.Fatal(problem)
			}
			return w
		}
		var step Step
		if len(steps) > 0 {
			step = steps[turn%len(steps)]
		}
		if len(acts) > 0 && acts[0].when(w) {
			for _, fault := range w.faultSteps() {
				if fault.What == acts[0].what || fault.String() == acts[0].what {
					step, last, acts = fault, acts[0], acts[1:]
					break
				}
			}
		}
		if step.do == nil {
			break
		}
		w, story = w.after(step), append(story, step.String())
		if problem := w.check(); problem != "" {
			logStory(t, story)
			t.Fatal(problem)
		}
	}
	logStory(t, story)
	t.Fatalf("the run does not end, or %d acts were not possible: %s", len(acts), w.summary())
	return nil
}

// The stories reproduce former counterexamples of the model with one or two acts.
func TestStoriesOfFormerCounterexamplesEndAsExpected(t *testing.T) {
	one := Scenario{Members: 1, Strategy: api.StrategyRolling, Faults: 2}
	for name, row := range map[string]struct {
		acts []act
		end  api.Phase // empty: the set is gone
	}{
		"a second process misses the new claim, and sees its bound volume": {
			[]act{{claimGone, "second restore: reads persistentvolumeclaims early", successorBound}}, api.Succeeded},
		"a second process misses the new claim, and sees its volume without a claim manifest": {
			[]act{{claimGone, "second restore: reads persistentvolumeclaims early", manifestGone}}, api.Succeeded},
		"a second process sees the old claim, and the new volume without a claim manifest": {
			[]act{{freezeFinalizerOn, "second restore: reads persistentvolumeclaims early", manifestGone}}, api.Succeeded},
		"a second process reads an outdated record, and sees the hold": {
			[]act{{phase(0, api.MemberWaiting),
				"second restore: reads statefulsets early", phase(0, api.MemberFinalPass)}}, api.Succeeded},
		"the claim of a held member is deleted, and the final pass takes too long": {
			[]act{{when: phase(0, api.MemberFinalPass), what: "deletes claim data-web-0"},
				{when: phase(0, api.MemberFinalPass), what: "the next deadline passes"}}, api.Failed},
		"the claim is deleted while the mover uses it": {
			[]act{{when: phase(0, api.MemberWaiting), what: "deletes claim data-web-0"}}, api.Failed},
		"the claim is deleted before the mover is created": {
			[]act{{when: phase(0, api.MemberCopying), what: "deletes claim data-web-0"}}, api.Failed},
		"the new claim is deleted while the member is held": {
			[]act{{when: successorBound, what: "deletes claim data-web-0"}}, api.Succeeded},
		"the set is deleted when the member starts": {
			[]act{{when: phase(0, api.MemberStarting), what: "deletes StatefulSet web"}}, ""},
		"the set is deleted during the swap": {
			[]act{{when: successorBound, what: "deletes StatefulSet web"}}, ""},
		"the hold is removed during the final pass": {
			[]act{{when: phase(0, api.MemberFinalPass), what: "removes finalizer drydock.dev/hold from web-0"}}, api.Succeeded},
		"the hold is removed before the claim is deleted": {
			[]act{{when: freezeFinalizerOn, what: "removes finalizer drydock.dev/hold from web-0"}}, api.Succeeded},
		"the held pod is deleted by force before it has ended": {
			[]act{{when: phase(0, api.MemberStopping), what: "deletes pod web-0 by force"}}, api.Succeeded},
		"the node stops reporting while the pod ends": {
			[]act{{when: phase(0, api.MemberStopping), what: "stops reporting"}}, api.Succeeded},
		"the operation is aborted during the final pass": {
			[]act{{when: phase(0, api.MemberFinalPass), what: "aborts"}}, api.Failed},
		"the set is scaled to zero while its member is swapped": {
			[]act{{when: phase(0, api.MemberSwapping), what: "scales down by one"}}, api.Succeeded},
	} {
		t.Run(name, func(t *testing.T) {
			w := runWithActs(t, one, row.acts...)
			if record := w.record(); row.end != "" && (record == nil || record.Phase != row.end) || row.end == "" && w.set() != nil {
				t.Errorf("the run ends with %s", w.summary())
			}
			if record := w.record(); strings.HasPrefix(name, "a second process") && record.Member(0).Stops != 1 {
				t.Errorf("the member was stopped %d times", record.Member(0).Stops)
			}
		})
	}
}

// freezeFinalizerOn reports whether the claim has the freeze finalizer and restore has decided to delete it.
func freezeFinalizerOn(w *World) bool {
	claim := w.claim("data-web-0")
	return claim != nil && slices.Contains(claim.Finalizers, api.FreezeFinalizer) && claim.DeletionTimestamp == nil &&
		len(w.functions[restoreRole].pending) > 0
}

// claimGone reports whether the old claim is deleted and the new one does not exist yet.
func claimGone(w *World) bool { return phase(0, api.MemberSwapping)(w) && w.claim("data-web-0") == nil }

// manifestGone reports whether the claim is bound to its new volume, and the claim manifest was removed from the volume.
func manifestGone(w *World) bool {
	if !successorBound(w) {
		return false
	}
	volume := w.volume(w.claim("data-web-0").Spec.VolumeName)
	return volume != nil && volume.Annotations[api.ClaimManifestAnnotation] == ""
}

// successorBound reports whether the member is held and its claim is bound to the new volume.
func successorBound(w *World) bool {
	claim := w.claim("data-web-0")
	return phase(0, api.MemberSwapping)(w) && claim != nil && claim.Status.Phase == "Bound" && claim.Spec.VolumeName != "pv-data-web-0.1"
}

func TestRandomWalksKeepInvariants(t *testing.T) {
	walks, err := strconv.Atoi(os.Getenv("DRYDOCK_MODEL_WALKS"))
	if err != nil {
		walks = 20
	}
	for _, s := range []Scenario{
		{Name: "one member, rolling", Members: 1, Strategy: api.StrategyRolling, Faults: 2},
		{Name: "one member, whole", Members: 1, Strategy: api.StrategyWhole, Faults: 2},
		{Name: "two members, rolling", Members: 2, Strategy: api.StrategyRolling, Faults: 2},
		{Name: "two members, whole", Members: 2, Strategy: api.StrategyWhole, Faults: 2},
		{Name: "two members, rolling, parallel", Members: 2, Strategy: api.StrategyRolling, Parallel: true, Faults: 2},
		{Name: "two members, whole, parallel", Members: 2, Strategy: api.StrategyWhole, Parallel: true, Faults: 2},
		{Name: "one of two members without a pod, rolling", Members: 2, Without: 1, Strategy: api.StrategyRolling, Faults: 2},
		{Name: "one of two members without a pod, whole", Members: 2, Without: 1, Strategy: api.StrategyWhole, Faults: 2},
	} {
		t.Run(s.Name, func(t *testing.T) {
			found := map[string]int{}
			for n := range seed.Next(t, walks) {
				story, problem := Walk(s, n, 3000)
				if problem == "" {
					continue
				}
				if found[problem]++; found[problem] == 1 {
					logStory(t, story)
					t.Errorf("seed %d: %s", n, problem)
				}
			}
			t.Logf("%d walks: %v", walks, found)
		})
	}
}

// fairly takes the possible steps in turn until none is left, and returns the final world and the story.
func fairly(t *testing.T, w *World) (*World, []string) {
	t.Helper()
	var story []string
	for turn := 0; ; turn++ {
		steps := w.steps()
		if len(steps) == 0 {
			return w, story
		}
		if turn > 2000 {
			logStory(t, story[:100])
			t.Fatal("the run does not end")
		}
		s := steps[turn%len(steps)]
		w = w.after(s)
		story = append(story, s.String())
		if problem := w.check(); problem != "" {
			logStory(t, story)
			t.Fatal(problem)
		}
	}
}

func logStory(t *testing.T, story []string) {
	t.Helper()
	for i, line := range story {
		t.Logf("%3d %s", i+1, line)
	}
}

func TestFairRunSucceeds(t *testing.T) {
	for _, s := range []Scenario{
		{Name: "one member, rolling", Members: 1, Strategy: api.StrategyRolling},
		{Name: "one member, whole", Members: 1, Strategy: api.StrategyWhole},
		{Name: "three members, rolling", Members: 3, Strategy: api.StrategyRolling},
		{Name: "three members, whole", Members: 3, Strategy: api.StrategyWhole},
		{Name: "three members, rolling, parallel, with a budget", Members: 3, Strategy: api.StrategyRolling, Parallel: true, Budget: 2},
		{Name: "three members, whole, parallel", Members: 3, Strategy: api.StrategyWhole, Parallel: true},
		{Name: "two of three members without a pod, rolling", Members: 3, Without: 2, Strategy: api.StrategyRolling},
		{Name: "two of three members without a pod, whole", Members: 3, Without: 2, Strategy: api.StrategyWhole},
	} {
		t.Run(s.Name, func(t *testing.T) {
			w, story := fairly(t, s.World())
			problem := w.checkEnd()
			if record := w.record(); problem == "" && record.Phase != api.Succeeded {
				problem = "the operation has ended in phase " + string(record.Phase) + ": " + record.Message
			}
			if problem != "" {
				logStory(t, story)
				t.Error(problem)
			}
		})
	}
}

// finish takes the possible steps in turn until none is left. It returns the story and the first problem.
func finish(w *World) (story []string, problem string) {
	for turn := range 2000 {
		steps := w.steps()
		if len(steps) == 0 {
			return append(story, "=> "+w.summary()), w.checkEnd()
		}
		s := steps[turn%len(steps)]
		w = w.after(s)
		story = append(story, s.String())
		if problem := w.check(); problem != "" {
			return append(story, "=> "+w.summary()), problem
		}
	}
	return append(story, "=> "+w.summary()), "the run does not end"
}

// noLimit is more than the states that fit into memory.
const noLimit = 20_000_000

// statesToVisit returns the number of states that an exploration visits: as many on a slow machine as on a fast one. DRYDOCK_MODEL_STATES
// overrides the default; 0 means no limit.
func statesToVisit(t *testing.T) int {
	t.Helper()
	text := os.Getenv("DRYDOCK_MODEL_STATES")
	if text == "" {
		return 4000
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return cmp.Or(n, noLimit)
}

// The test inserts one fault after each step of a fair run, then continues fairly to the end. It tries one of 24 faults, or all of them
// with DRYDOCK_MODEL_STATES=0.
func TestOneDisturbanceAnywhereKeepsInvariants(t *testing.T) {
	for _, s := range []Scenario{
		{Name: "one member, rolling", Members: 1, Strategy: api.StrategyRolling, Faults: 1, Prompt: true},
		{Name: "two members, whole", Members: 2, Strategy: api.StrategyWhole, Faults: 1, Prompt: true},
		{Name: "two members, rolling", Members: 2, Strategy: api.StrategyRolling, Faults: 1, Prompt: true},
		{Name: "two members, whole, parallel", Members: 2, Strategy: api.StrategyWhole, Parallel: true, Faults: 1, Prompt: true},
		{Name: "one of two members without a pod, rolling", Members: 2, Without: 1, Strategy: api.StrategyRolling, Faults: 1, Prompt: true},
	} {
		t.Run(s.Name, func(t *testing.T) {
			runs, one := 0, 24
			if statesToVisit(t) == noLimit {
				one = 1
			}
			found := map[string]bool{}
			w, story := s.World(), []string(nil)
			for turn := 0; ; turn++ {
				for i, fault := range w.faultSteps() {
					if (turn+i)%one != 0 {
						continue
					}
					rest, problem := finish(w.after(fault))
					runs++
					if problem != "" && !found[problem] {
						found[problem] = true
						logStory(t, append(append(story[:len(story):len(story)], "*** "+fault.String()), rest...))
						t.Error(problem)
					}
				}
				steps := w.steps()
				if len(steps) == 0 {
					break
				}
				step := steps[turn%len(steps)]
				w, story = w.after(step), append(story, step.String())
			}
			t.Logf("%d runs, up to step %d: %s", runs, len(story), w.summary())
			if runs < 80 || w.record().Phase != api.Succeeded {
				t.Errorf("%d runs with a fault in %d steps are not enough to show anything", runs, len(story))
			}
		})
	}
}
