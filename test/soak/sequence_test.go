package soak

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func lines(seed uint64, count int) []string {
	s := NewSequence(seed)
	var all []string
	for range count {
		all = append(all, s.Next().String())
	}
	return all
}

func TestSameSeedGivesSameSequence(t *testing.T) {
	if first, second := lines(7, 2000), lines(7, 2000); !slices.Equal(first, second) {
		t.Error("two sequences of seed 7 differ")
	}
	if slices.Equal(lines(7, 100), lines(8, 100)) {
		t.Error("seeds 7 and 8 give the same sequence")
	}
}

// TestSequenceKeepsItsLimits: in every sequence, few pods run, a set has no two steps in a row, and each step begins with the state that
// the set's previous step has left.
func TestSequenceKeepsItsLimits(t *testing.T) {
	for seed := range uint64(20) {
		s, state, last := NewSequence(seed), map[string]Set{}, map[string]int{}
		for _, set := range NewSets() {
			state[set.Name] = set
		}
		ofSets := 0
		for range 1000 {
			step := s.Next()
			if step.Action.IsFault() {
				continue
			}
			ofSets++
			name := step.Before.Name
			if step.Before != state[name] || step.After.Name != name {
				t.Fatalf("seed %d: %s begins with %s, but the set is %s", seed, step, step.Before, state[name])
			}
			if at, found := last[name]; found && ofSets-at <= apart {
				t.Fatalf("seed %d: %s comes %d steps after the previous one", seed, step, ofSets-at)
			}
			state[name], last[name] = step.After, ofSets
			pods := 0
			for _, set := range state {
				pods += set.Running()
			}
			if pods > maxPods {
				t.Fatalf("seed %d: %d pods after %s", seed, pods, step)
			}
		}
	}
}

func TestStepsHaveTheirPreconditions(t *testing.T) {
	s := NewSequence(3)
	for range 5000 {
		step := s.Next()
		before, after := step.Before, step.After
		valid := map[Action]bool{
			Wake:    before.Running() == 0 && after.Running() > 0,
			Sleep:   before.Running() > 0 && after.Asleep && after.Replicas == before.Replicas,
			Resize:  before.Claims > 0 && !before.Asleep && before.Size != after.Size && step.Request != "",
			Abort:   before.Running() > 0 && before.Size != after.Size && step.Delay > 0,
			Refuse:  before == after && step.Reason != "",
			Scale:   before.Replicas != after.Replicas && !before.Asleep,
			CleanUp: before.Kind == Cleaned && after.Replicas < before.Replicas && after.Claims == after.Replicas,
		}
		if !step.Action.IsFault() && !valid[step.Action] {
			t.Fatalf("%s: from %s to %s", step, before, after)
		}
	}
}

// TestSequenceHasEveryAction: also a short run has every action and every fault.
func TestSequenceHasEveryAction(t *testing.T) {
	all := strings.Join(lines(1, 300), "\n")
	for _, action := range append([]Action{Wake, Sleep, Resize, Abort, Refuse, Scale, CleanUp}, deck...) {
		if !strings.Contains(all, " "+string(action)+" ") {
			t.Errorf("no %s in 300 steps", action)
		}
	}
}

func TestRefusedRequestsDiffer(t *testing.T) {
	s, seen := NewSequence(5), map[string]bool{}
	for range 5000 {
		if step := s.Next(); step.Action == Refuse {
			if seen[step.Request] {
				t.Errorf("%s is requested twice", step.Request)
			}
			seen[step.Request] = true
		}
	}
}

func TestJournalCountsStepsByOutcome(t *testing.T) {
	var out strings.Builder
	j, at := NewJournal(&out), time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	resize := Step{Number: 4, Action: Resize, Before: web(Rolling), After: web(Rolling), Request: "data=40Mi"}
	j.Note(resize, at, at.Add(12*time.Second), Succeeded, "")
	j.Note(resize, at, at.Add(time.Minute), Lost, "the claim is gone")
	j.Note(Step{Number: 5, Action: Crash, Delay: time.Second}, at, at, Done, "")
	want := `09:00:00.0 #4 web resize (rolling), data=40Mi: succeeded in 12s
09:00:00.0 #4 web resize (rolling), data=40Mi: LOST in 1m0s: the claim is gone
09:00:00.0 #5 crash drydock after 1s: done in 0s`
	if j.String() != want || out.String() != want+"\n" {
		t.Errorf("the journal is\n%s", j)
	}
	if missing := j.Missing(); slices.Contains(missing, Resize) || slices.Contains(missing, Crash) || len(missing) != len(Actions)-2 {
		t.Errorf("missing are %q, want all but resize and crash", missing)
	}
	if summary := j.Summary(); summary != "   1 crash drydock done\n   1 resize LOST\n   1 resize succeeded" {
		t.Errorf("the summary is\n%s", summary)
	}
}
