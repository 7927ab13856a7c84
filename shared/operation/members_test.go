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
