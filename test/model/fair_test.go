package model

import (
	"testing"

	"drydock.dev/shared/api"
)

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
