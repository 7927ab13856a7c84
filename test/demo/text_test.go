package main

import (
	"strings"
	"testing"
	"time"

	"drydock.dev/shared/api"
)

func TestWritesAreNumberedWithStableNames(t *testing.T) {
	status := &api.Resize{Header: api.Header{Operation: operation}, Members: []api.Member{
		{Attempt: 1, Claims: []api.Move{{Claim: "data-web-0", OldVolume: "pvc-1", NewVolume: "pvc-2"}}},
	}}
	got := numbered(writesOf([]logLine{
		{Message: "engine runs"},
		{Message: doneMessage, Function: "backup", Plan: "do Preparing: create controllerrevisions drydock-" + operation},
		{Message: doneMessage, Function: "restore", Plan: "do RetentionEnded: patch persistentvolumes pvc-99 {-operation}"},
		{Message: "conflict", Function: "backup",
			Plan:     "do Preparing: patch persistentvolumes pvc-1 {a, b}; patch statefulsets web {+status}; event X \"x\"",
			Conflict: "patch statefulsets web {+status}: the object has been modified"},
		{Message: doneMessage, Function: "backup",
			Plan: `do CopyVerified: patch statefulsets web {+status}; event CopyVerified "a; b -> \"c\""; delete jobs ` +
				api.MoverName(operation, 0, 1) + ` -> backup.completed`},
		{Message: doneMessage, Function: "backup", Plan: "noop UpToDate"},
	}, status))
	want := []string{
		`  1  backup         Preparing        create controllerrevisions JOURNAL`,
		`  2  backup         Preparing        patch persistentvolumes OLD(data-web-0) {a, b}`,
		`  3  backup         CopyVerified     patch statefulsets web {+status}`,
		`  4  backup         CopyVerified     event CopyVerified "a; b -> \"c\""`,
		`  5  backup         CopyVerified     delete jobs MOVER(0)`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestIncidentsCountConflictsAndDeadLetters(t *testing.T) {
	if got := incidents([]logLine{{Message: doneMessage}}); got != "" {
		t.Errorf("without incidents: got %q", got)
	}
	got := incidents([]logLine{{Message: "conflict", Conflict: "a"}, {Message: "conflict", Conflict: "b"}, {Message: deadLetterMessage}})
	if got != "plans decided again after a conflict: 2, dead-lettered events: 1" {
		t.Errorf("got %q", got)
	}
}

func TestConsecutiveRawEventsBecomeOneLine(t *testing.T) {
	var printed []string
	g := &eventBatch{print: func(_ time.Time, text string) { printed = append(printed, text) }}
	pod := "/api/v1/namespaces/demo/pods/web-0"
	for _, p := range []brokerEvent{
		{Type: sourcePrefix + "add", Subject: pod},
		{Type: sourcePrefix + "update", Subject: pod},
		{Type: sourcePrefix + "update", Subject: "/api/v1/namespaces/demo/pods/web-1"},
		{Type: "dev.drydock.object.changed", Subject: "/apis/apps/v1/namespaces/demo/statefulsets/web",
			Concerns: "backup restore"},
	} {
		g.add(p)
	}
	g.flush()
	g.flush() // must print nothing more
	if got := strings.Join(printed, "\n"); got != "pod add · pod update ×2 · notify → backup, restore" {
		t.Errorf("got %q", got)
	}
}

func TestChangesOfTheRecordBecomeLines(t *testing.T) {
	first := &api.Resize{Header: api.Header{Operation: "1", Phase: api.Planned, Message: "go"},
		Members: []api.Member{{Ordinal: 1, Phase: api.MemberPending}}}
	second := first.Clone()
	second.Members[0].Phase = api.MemberCopying
	third := second.Clone()
	third.Phase, third.Message = api.Reverting, "no"
	for name, test := range map[string]struct {
		before, after *api.Resize
		want          string
	}{
		"a new operation":            {nil, first, "phase Planned: go"},
		"a member changes its phase": {first, second, "step web-1 Pending → Copying"},
		"only the phase":             {second, third, "phase Reverting: no"},
		"nothing has changed":        {second, second.Clone(), ""},
	} {
		var got []string
		for _, c := range changes(test.before, test.after) {
			got = append(got, c.what+" "+c.text)
		}
		if text := strings.Join(got, "\n"); text != test.want {
			t.Errorf("%s: got %q, want %q", name, text, test.want)
		}
	}
}

func TestParsingTheOutputOfPods(t *testing.T) {
	sum := strings.Repeat("a", 64)
	if got, entries, err := readChecksum(sum + "\n3046\n"); got != sum || entries != 3046 || err != nil {
		t.Errorf("got %q, %d, %v", got, entries, err)
	}
	if _, _, err := readChecksum("stat: cannot open"); err == nil {
		t.Error("an error message was parsed as a checksum")
	}
	df := "Filesystem           1024-blocks    Used Available Capacity Mounted on\n" +
		"/dev/loop8              199995     41991    153908  21% /data\n"
	if got, err := readSpace(df); err != nil || got != (space{199995 << 10, 41991 << 10}) {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := readSpace("df: no such file"); err == nil {
		t.Error("an error message was parsed as free space")
	}
}
