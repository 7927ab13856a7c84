package owners

import (
	stdcmp "cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

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
		is = want
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

// markdown renders the table for the docs as a list, because its rows are too long for a terminal.
func markdown(registry Registry) string {
	var b strings.Builder
	for _, row := range registry {
		var names []string
		for _, k := range row.Kinds {
			names = append(names, k.Name)
		}
		operator, pause := row.Operator, cell(row.Pause)
		if row.Unverified {
			operator += " (off)"
		}
		if row.PausedThroughController {
			pause = "by its owner"
		}
		resume := row.Resume
		if len(row.Pause) > 0 {
			resume = stdcmp.Or(resume, AtScaled)
		}
		fmt.Fprintf(&b, "- **%s**, `%s`\n  - kinds: %s\n", operator, row.Group, strings.Join(names, ", "))
		for _, item := range []struct{ name, text string }{{"pause", pause}, {"stop", cell(row.Stop)}, {"resumed", string(resume)},
			{"size of the claims", sizes(row.Storage)}, {"source", row.Source}} {
			if item.text == "" {
				continue
			}
			line := fmt.Sprintf("  - %s: %s", item.name, item.text)
			if utf8.RuneCountInString(line) > 120 {
				line = strings.ReplaceAll(line, ", ", ",\n    ")
			}
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

// sizes renders where a resource has the sizes of its claims.
func sizes(storage []Storage) string {
	var texts []string
	for _, s := range storage {
		text := "`" + s.Size + "`"
		if s.Template != "" {
			text += " of template " + s.Template
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}

// cell renders the settings that pause or stop.
func cell(settings []Setting) string {
	var texts []string
	for _, s := range settings {
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
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}
