package soak

import (
	"slices"
	"strings"
	"testing"
	"time"
)

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
