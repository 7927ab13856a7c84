package operation

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"drydock.dev/shared/api"
	"drydock.dev/test/golden"
)

var kinds = []api.Kind{api.KindResize, api.KindRollback, api.KindSleep, api.KindCleanup, api.KindScale}

func TestEveryPhaseCanBeEnteredAndLeft(t *testing.T) {
	for _, kind := range kinds {
		reached := map[api.Phase]bool{}
		var follow func(api.Phase)
		follow = func(phase api.Phase) {
			if reached[phase] {
				return
			}
			reached[phase] = true
			state := Find(kind, phase)
			if state == nil {
				t.Fatalf("%s: phase %s has no row", kind, phase)
			}
			for _, next := range state.Next {
				follow(next)
			}
		}
		for _, s := range States {
			if s.Kind == kind && s.First {
				follow(s.Phase)
			}
		}
		for _, phase := range api.Phases[kind] {
			if Find(kind, phase) == nil {
				t.Errorf("%s: phase %s has no row", kind, phase)
			}
		}
		for _, s := range States {
			switch {
			case s.Kind != kind:
			case !slices.Contains(api.Phases[kind], s.Phase):
				t.Errorf("%s: a record in phase %s cannot be loaded", kind, s.Phase)
			case !reached[s.Phase]:
				t.Errorf("%s: no operation reaches %s", kind, s.Phase)
			case s.Phase.Terminal() != (s.By == ""), !s.Phase.Terminal() && len(s.Next) == 0, s.Means == "":
				t.Errorf("%s: %s has the function %q and the next phases %v", kind, s.Phase, s.By, s.Next)
			}
		}
	}
}

// TestDocsShowEveryPhase: docs/status.md has the same tables. Write them with: go test ./shared/operation -update
func TestDocsShowEveryPhase(t *testing.T) {
	const file = "../../docs/status.md"
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := string(content)
	for _, kind := range kinds {
		heading := fmt.Sprintf("### The phases of a %s\n", strings.ToLower(string(kind)))
		before, section, found := strings.Cut(text, heading)
		if !found {
			t.Fatalf("%s has no heading %q", file, heading)
		}
		start := strings.Index(section, "| phase |")
		end := start + strings.Index(section[start:], "\n\n") + 1
		if got, want := section[start:end], table(kind); got != want {
			text = before + heading + section[:start] + want + section[end:]
			if !golden.Updating() {
				t.Errorf("the phases of a %s in %s are\n%s\nwant\n%s", kind, file, got, want)
			}
		}
	}
	if golden.Updating() {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func table(kind api.Kind) string {
	b := strings.Builder{}
	b.WriteString("| phase | meaning | function | next |\n|---|---|---|---|\n")
	for _, s := range States {
		if s.Kind != kind {
			continue
		}
		var next []string
		for _, phase := range s.Next {
			next = append(next, fmt.Sprintf("`%s`", phase))
		}
		by := string(s.By)
		for _, f := range slices.Sorted(maps.Keys(s.Also)) {
			by += ", " + string(f)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", s.Phase, s.Means, by, strings.Join(next, ", "))
	}
	return b.String()
}

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
