package model

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"drydock.dev/shared/api"
)

// The recorded traces of test/api show what real controllers did. The model must be able to do the same.
func TestModelReproducesRecordedTraces(t *testing.T) {
	for name, r := range Recordings() {
		t.Run(name, func(t *testing.T) {
			trace := recorded(t, name)
			story, err := Replay(r, trace, ReplayBound)
			if err != nil {
				logStory(t, story)
				t.Fatal(err)
			}
			t.Logf("%d changes, %d steps of the model", len(trace.Changes), len(story))
		})
	}
}

func recorded(t *testing.T, name string) Trace {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", name+".trace"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	trace, err := ReadTrace(file)
	if err != nil {
		t.Fatal(err)
	}
	return trace
}

// A replay that accepts every trace would prove nothing. These traces contain changes that Kubernetes never makes.
func TestReplayNamesImpossibleChange(t *testing.T) {
	whole := recorded(t, "one-member-rolling")
	at := func(object, state string) int {
		return slices.IndexFunc(whole.Changes, func(c Change) bool { return c.Object == object && strings.HasPrefix(c.State, state) })
	}
	const volume = "persistentvolumes/pv-drydock-OPERATION-191f4772-0.1"
	held := at("pods/web-0", "placed Succeeded unmounted deleting +"+api.HoldFinalizer)
	for name, row := range map[string]struct {
		before int // index of the inserted change
		change Change
	}{
		"a second pod of the member beside the held one": {held + 1, Change{"pods/web-0", "Pending of web.2"}},
		"a held pod that disappears by itself":           {held + 1, Change{"pods/web-0", ""}},
		"a claim that is bound before its volume": {at(volume, "for") + 1,
			Change{"persistentvolumeclaims/drydock-OPERATION-191f4772-0", "Bound on pv-drydock-OPERATION-191f4772-0.1 +" + protection}},
		"a record that skips the proof of the stop": {held - 1, Change{"statefulsets/web", "replicas 1 Moving 0:FinalPass/1"}},
	} {
		t.Run(name, func(t *testing.T) {
			if row.before < 1 {
				t.Fatal("the trace has no such change")
			}
			trace := Trace{Begin: whole.Begin, Changes: slices.Insert(slices.Clone(whole.Changes), row.before, row.change)}
			_, err := Replay(Recordings()["one-member-rolling"], trace, ReplayBound)
			if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("change %d is not possible in the model: %s", row.before+1, row.change)) {
				t.Errorf("the replay accepts the change, or fails with another error: %v", err)
			}
		})
	}
}

// TestDeletionOfMoverMayConflict: the Job controller counts a ready pod when restore deletes the Job. restore decides again, and the Job is
// deleted with the other objects of the operation.
func TestDeletionOfMoverMayConflict(t *testing.T) {
	trace := recorded(t, "one-member-rolling")
	index := func(object, state string) int {
		return slices.IndexFunc(trace.Changes, func(c Change) bool { return c.Object == object && strings.HasPrefix(c.State, state) })
	}
	gone := slices.IndexFunc(trace.Changes, func(c Change) bool { return strings.HasPrefix(c.Object, "jobs/") && c.State == "" })
	finishing := index("statefulsets/web", "replicas 1 Finishing")
	if gone < 0 || finishing < gone {
		t.Fatal("the trace has no such changes")
	}
	change := trace.Changes[finishing]
	trace.Changes = slices.Insert(slices.Delete(slices.Clone(trace.Changes), finishing, finishing+1), gone, change)
	if story, err := Replay(Recordings()["one-member-rolling"], trace, ReplayBound); err != nil {
		logStory(t, story)
		t.Error(err)
	}
}
