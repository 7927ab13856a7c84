package operation

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"drydock.dev/test/golden"

	"drydock.dev/shared/api"
)

var kinds = []api.Kind{api.KindResize, api.KindRollback, api.KindSleep, api.KindCleanup, api.KindScale}

func TestEveryPhaseIsReachedAndLeft(t *testing.T) {
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
				t.Errorf("%s: a record in phase %s is not read", kind, s.Phase)
			case !reached[s.Phase]:
				t.Errorf("%s: no operation gets to %s", kind, s.Phase)
			case s.Phase.Terminal() != (s.By == ""), !s.Phase.Terminal() && len(s.Next) == 0, s.Means == "":
				t.Errorf("%s: %s is moved on by %q to %v", kind, s.Phase, s.By, s.Next)
			}
		}
	}
}

func TestCheckStep(t *testing.T) {
	head := func(kind api.Kind, operation string, phase api.Phase) *api.Header {
		return &api.Header{Kind: kind, Operation: operation, Phase: phase}
	}
	for name, row := range map[string]struct {
		before, after *api.Header
		allowed       bool
	}{
		"the first operation begins":         {nil, head(api.KindSleep, "1", api.Planned), true},
		"one begins in the middle":           {nil, head(api.KindSleep, "1", api.Asleep), false},
		"the next one begins":                {head(api.KindSleep, "1", api.Succeeded), head(api.KindSleep, "2", api.Planned), true},
		"the next one begins over an active": {head(api.KindSleep, "1", api.Asleep), head(api.KindSleep, "2", api.Planned), false},
		"a rollback follows a resize":        {head(api.KindResize, "1", api.Succeeded), head(api.KindRollback, "2", api.Planned), true},
		"a resize becomes a rollback":        {head(api.KindResize, "1", api.Moving), head(api.KindRollback, "1", api.Finishing), false},
		"it moves on":                        {head(api.KindSleep, "1", api.Asleep), head(api.KindSleep, "1", api.Waking), true},
		"its record changes in its phase":    {head(api.KindSleep, "1", api.Asleep), head(api.KindSleep, "1", api.Asleep), true},
		"it goes back":                       {head(api.KindSleep, "1", api.Waking), head(api.KindSleep, "1", api.Planned), false},
		"another kind's phase":               {head(api.KindSleep, "1", api.Asleep), head(api.KindSleep, "1", api.Moving), false},
		"it ended":                           {head(api.KindCleanup, "1", api.Failed), head(api.KindCleanup, "1", api.Cleaning), false},
		"a resize that failed goes on":       {head(api.KindResize, "1", api.Failed), head(api.KindResize, "1", api.Moving), false},
		"a resize is given up":               {head(api.KindResize, "1", api.Moving), head(api.KindResize, "1", api.Reverting), true},
		"one that is given up goes on":       {head(api.KindResize, "1", api.Reverting), head(api.KindResize, "1", api.Moving), false},
		"it is given up, and all are moved":  {head(api.KindResize, "1", api.Reverting), head(api.KindResize, "1", api.Finishing), true},
		"a rollback grows nothing":           {nil, head(api.KindRollback, "1", api.Expanding), false},
	} {
		if err := CheckStep(row.before, row.after); (err == nil) != row.allowed {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// docs/status.md has the same tables. Write them with: go test ./shared/operation -update
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
		if is, want := section[start:end], table(kind); is != want {
			text = before + heading + section[:start] + want + section[end:]
			if !golden.Updating() {
				t.Errorf("the phases of a %s in %s are\n%s\nwant\n%s", kind, file, is, want)
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
	b.WriteString("| phase | meaning | who moves it on | to |\n|---|---|---|---|\n")
	for _, s := range States {
		if s.Kind != kind {
			continue
		}
		var next []string
		for _, phase := range s.Next {
			next = append(next, fmt.Sprintf("`%s`", phase))
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", s.Phase, s.Means, s.By, strings.Join(next, ", "))
	}
	return b.String()
}
