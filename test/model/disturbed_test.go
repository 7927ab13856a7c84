package model

import (
	"cmp"
	"os"
	"strconv"
	"testing"

	"drydock.dev/shared/api"
)

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
