package owners

import (
	stdcmp "cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drydock.dev/test/golden"

	"github.com/google/go-cmp/cmp"
)

const (
	tableBegins = "<!-- The table is written by: go test ./shared/owners -update -->\n"
	tableEnds   = "<!-- The end of the table -->\n"
)

// TestDocsListEveryRow compares the table in docs/owners.md with the built-in table.
func TestDocsListEveryRow(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "owners.md")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(content), tableBegins)
	is, behind, ends := strings.Cut(rest, tableEnds)
	if !begins || !ends {
		t.Fatalf("%s has no table between %q and %q", path, tableBegins, tableEnds)
	}
	want := markdown(BuiltIn())
	if golden.Updating() {
		if err := os.WriteFile(path, []byte(before+tableBegins+want+tableEnds+behind), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, is); diff != "" {
		t.Errorf("%s (-want +got; to accept: go test ./shared/owners -update):\n%s", path, diff)
	}
}

// TestDocsExampleIsValid parses the example that users copy.
func TestDocsExampleIsValid(t *testing.T) {
	content, err := os.ReadFile(filepath.Join("..", "..", "docs", "owners.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(content), "DRYDOCK_OWNERS: |\n")
	example, _, ends := strings.Cut(rest, "```")
	if !found || !ends {
		t.Fatal("docs/owners.md has no example with DRYDOCK_OWNERS")
	}
	if rows, err := Parse(example); err != nil || len(rows) == 0 {
		t.Errorf("%d rows, %v", len(rows), err)
	}
}

// markdown renders the table for the docs: a heading for each operator, and a list of settings for each of its rows.
func markdown(registry Registry) string {
	var b strings.Builder
	operator := ""
	for _, row := range registry {
		if row.Operator != operator {
			operator = row.Operator
			fmt.Fprintf(&b, "\n### %s\n", operator)
		}
		var names []string
		for _, k := range row.Kinds {
			names = append(names, k.Name)
		}
		off := ""
		if row.Unverified {
			off = " (off)"
		}
		fmt.Fprintf(&b, "\n%s in `%s`%s\n\n", strings.Join(names, ", "), row.Group, off)
		if row.PausedThroughController {
			b.WriteString("- pause: by its owner\n")
		}
		for _, setting := range row.Pause {
			fmt.Fprintf(&b, "- pause: %s\n", cell(setting))
		}
		for _, setting := range row.Stop {
			fmt.Fprintf(&b, "- stop: %s\n", cell(setting))
		}
		if len(row.Pause) > 0 || row.Resume != "" {
			fmt.Fprintf(&b, "- resumed: %s\n", stdcmp.Or(row.Resume, AtScaled))
		}
		fmt.Fprintf(&b, "- source: %s\n", strings.ReplaceAll(row.Source, " in ", "\n  in "))
	}
	b.WriteString("\n")
	return b.String()
}

// cell renders a setting that pauses or stops.
func cell(s Setting) string {
	text := fmt.Sprintf("`%s: %v`", s.Key, s.Value)
	if value, ok := s.Value.(string); ok {
		text = fmt.Sprintf("`%s: %q`", s.Key, value)
	}
	if s.In != Field {
		text = string(s.In) + " " + text
	}
	if s.Presence {
		text += " or any value"
	}
	return text
}
