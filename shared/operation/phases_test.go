package operation

import (
	"fmt"
	"maps"
	"os"
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
