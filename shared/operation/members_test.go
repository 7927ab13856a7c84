package operation

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"drydock.dev/shared/api"
)

// TestDocsShowEveryPhaseOfAMember: docs/status.md has a row for each phase, with its functions and the phases that may follow.
func TestDocsShowEveryPhaseOfAMember(t *testing.T) {
	content, err := os.ReadFile("../../docs/status.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(content), "### The members of a resize\n")
	if !found {
		t.Fatal("docs/status.md has no section about the members")
	}
	section, _, _ = strings.Cut(section, "\n\n")
	rows := strings.Split(strings.TrimSpace(section), "\n")[2:] // after the head
	if len(rows) != len(MemberStates) {
		t.Fatalf("%d rows, want %d", len(rows), len(MemberStates))
	}
	word := regexp.MustCompile("`([A-Za-z]+)`")
	for i, s := range MemberStates {
		cells := strings.Split(strings.Trim(rows[i], "|"), "|")
		if !strings.Contains(cells[0], "`"+string(s.Phase)+"`") {
			t.Errorf("row %d is %s, want %s", i, cells[0], s.Phase)
		}
		var next []api.MemberPhase
		for _, m := range word.FindAllStringSubmatch(cells[3], -1) {
			next = append(next, api.MemberPhase(m[1]))
		}
		if !slices.Equal(next, s.Next) {
			t.Errorf("%s: the docs have %v, the table has %v", s.Phase, next, s.Next)
		}
		for _, by := range []api.Function{api.Backup, api.Restore} {
			if strings.Contains(cells[2], string(by)) != slices.Contains(s.By, by) {
				t.Errorf("%s: the functions are %v, the docs say %s", s.Phase, s.By, cells[2])
			}
		}
	}
}

func TestCheckMemberSteps(t *testing.T) {
	at := func(operation string, phase api.Phase, member api.MemberPhase) *api.Resize {
		r := &api.Resize{Members: []api.Member{{Ordinal: 1, Phase: member}}}
		r.Operation, r.Phase = operation, phase
		return r
	}
	for name, row := range map[string]struct {
		before, after *api.Resize
		allowed       bool
	}{
		"the first record":              {nil, at("1", api.Moving, api.MemberPending), true},
		"another operation":             {at("1", api.Failed, api.MemberKept), at("2", api.Planned, api.MemberPending), true},
		"the phase stays the same":      {at("1", api.Moving, api.MemberWaiting), at("1", api.Moving, api.MemberWaiting), true},
		"a stop after the copy":         {at("1", api.Moving, api.MemberWaiting), at("1", api.Moving, api.MemberStopping), true},
		"a stop without a copy":         {at("1", api.Moving, api.MemberPending), at("1", api.Moving, api.MemberStopping), false},
		"a start without a swap":        {at("1", api.Moving, api.MemberFinalPass), at("1", api.Moving, api.MemberStarting), false},
		"moved without a start":         {at("1", api.Moving, api.MemberSwapping), at("1", api.Moving, api.MemberMoved), false},
		"a claim lost during the start": {at("1", api.Moving, api.MemberStarting), at("1", api.Moving, api.MemberSwapping), true},
		"moved twice":                   {at("1", api.Moving, api.MemberMoved), at("1", api.Moving, api.MemberCopying), false},
		"reverted before its stop":      {at("1", api.Reverting, api.MemberCopying), at("1", api.Reverting, api.MemberKept), true},
		"reverted during the swap":      {at("1", api.Reverting, api.MemberSwapping), at("1", api.Reverting, api.MemberMoved), true},
		"stopped while reverting":       {at("1", api.Reverting, api.MemberWaiting), at("1", api.Reverting, api.MemberStopping), false},
		"not ready":                     {at("1", api.Moving, api.MemberStarting), at("1", api.Reverting, api.MemberMoved), true},
	} {
		if err := CheckMemberSteps(row.before, row.after); (err == nil) != row.allowed {
			t.Errorf("%s: %v", name, err)
		}
	}
}
