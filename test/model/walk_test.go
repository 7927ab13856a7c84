package model

import (
	"os"
	"strconv"
	"testing"

	"drydock.dev/shared/api"
	"drydock.dev/test/seed"
)

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
