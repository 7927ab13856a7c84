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

// line is a line of the table in the docs.
type line struct{ operator, kinds, pause, stop, size, differs, label, confirmed string }

// markdown renders the table for the docs. Rows of an operator that differ only in their kinds share a line.
func markdown(registry Registry) string {
	var lines []line
	for _, row := range registry {
		next := lineOf(row)
		kinds := next.kinds
		if last := len(lines) - 1; last >= 0 {
			if next.kinds = lines[last].kinds; next == lines[last] {
				lines[last].kinds += "; " + kinds
				continue
			}
		}
		next.kinds = kinds
		lines = append(lines, next)
	}
	var b strings.Builder
	b.WriteString("| operator | kinds | pause | stop | size of the claims | if it differs | label goes on | confirmed by |\n" +
		"|---|---|---|---|---|---|---|---|\n")
	for _, l := range lines {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s | %s |\n", l.operator, l.kinds, l.pause, l.stop, l.size, l.differs, l.label,
			l.confirmed)
	}
	return b.String()
}

func lineOf(row Row) line {
	var names []string
	for _, k := range row.Kinds {
		names = append(names, k.Name)
	}
	l := line{operator: row.Operator, kinds: fmt.Sprintf("%s (`%s`)", strings.Join(names, ", "), row.Group), pause: cell(row.Pause),
		stop: cell(row.Stop), size: sizes(row.Storage), differs: stdcmp.Or(string(row.OnDifference), "–"), confirmed: "its source"}
	switch {
	case row.PausedThroughController:
		l.pause = "by its owner"
	case row.Resume == AtReady:
		l.pause += ", until the set is ready"
	}
	switch row.OptIn {
	case OptInResource:
		l.label = "the resource"
	case OptInCreation:
		l.label = "the resource, when it is created"
	default:
		l.label = "the set"
	}
	switch {
	case row.Unverified:
		l.operator, l.confirmed = row.Operator+" (off)", "nothing"
	case row.Ran != "":
		l.confirmed = "running " + row.Ran
	}
	return l
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
	return joined(texts)
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
	return joined(texts)
}

// joined returns the texts of a cell.
func joined(texts []string) string {
	if len(texts) == 0 {
		return "–"
	}
	return strings.Join(texts, ", ")
}
