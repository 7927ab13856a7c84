package owners

import (
	stdcmp "cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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
type line struct{ operator, kinds, settings, storage, label string }

// markdown renders the table for the docs, sorted by operator. Rows of an operator that differ only in their kinds share a line.
func markdown(registry Registry) string {
	rows := slices.Clone(registry)
	slices.SortStableFunc(rows, func(a, b Row) int { return strings.Compare(a.Operator, b.Operator) })
	var lines []line
	for _, row := range rows {
		next := lineOf(row)
		kinds := next.kinds
		if last := len(lines) - 1; last >= 0 {
			if next.kinds = lines[last].kinds; next == lines[last] {
				lines[last].kinds += "<br>" + kinds
				continue
			}
		}
		next.kinds = kinds
		lines = append(lines, next)
	}
	var b strings.Builder
	b.WriteString("| operator | kinds | pause and stop | size and class of the claims | label on |\n|---|---|---|---|---|\n")
	for _, l := range lines {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", l.operator, l.kinds, l.settings, l.storage, l.label)
	}
	return b.String()
}

func lineOf(row Row) line {
	var names []string
	for _, k := range row.Kinds {
		names = append(names, k.Name)
	}
	confirmed := "source only"
	switch {
	case row.Unverified:
		confirmed = "off, not verified"
	case row.Ran != "":
		confirmed = "ran: " + row.Ran
	}
	label := row.OptIn
	if label == "" {
		label = OptInSet
	}
	return line{operator: "**" + row.Operator + "**<br>" + confirmed, kinds: fmt.Sprintf("%s<br>`%s`", strings.Join(names, ", "), row.Group),
		settings: means(row), storage: storageCell(row), label: string(label)}
}

// means renders the settings that pause and stop. The ones that a sleep prefers come first.
func means(row Row) string {
	pause, stop := "pause: "+settingsCell(row.Pause), "stop: "+settingsCell(row.Stop)
	if row.Resume == AtReady {
		pause += "<br>until the set is ready"
	}
	switch {
	case row.PausedThroughController:
		return "by its owner"
	case !row.Supports(ByStop):
		return pause
	case !row.Supports(ByPause):
		return stop
	case row.PrefersStop():
		return stop + "<br>" + pause
	}
	return pause + "<br>" + stop + " (not used)"
}

// storageCell renders where a resource has the sizes and classes of its claims, and what its operator does if they differ.
func storageCell(row Row) string {
	if len(row.Storage) == 0 {
		return "–"
	}
	var texts []string
	for _, s := range row.Storage {
		if s.Template != "" {
			texts = append(texts, "template `"+s.Template+"`:")
		}
		texts = append(texts, paths(s)...)
		if s.SetName != "" {
			texts = append(texts, "set: `"+s.SetName+"`")
		}
	}
	return strings.Join(append(texts, "differs: "+stdcmp.Or(string(row.OnDifference), "not known")), "<br>")
}

// paths renders the paths of size and class. A long common beginning is a line of its own.
func paths(s Storage) []string {
	if s.Class == "" {
		return []string{"`" + s.Size + "`"}
	}
	size, class := strings.Split(s.Size, "."), strings.Split(s.Class, ".")
	common := 0
	for common < min(len(size), len(class)) && size[common] == class[common] {
		common++
	}
	begin := strings.Join(size[:common], ".")
	if len(begin) < len("spec.volumeClaimTemplates") {
		return []string{"`" + s.Size + "`", "`" + s.Class + "`"}
	}
	return []string{"`" + begin + "`", fmt.Sprintf("`%s`, `%s`", strings.TrimPrefix(s.Size, begin), strings.TrimPrefix(s.Class, begin))}
}

// settingsCell renders settings.
func settingsCell(settings []Setting) string {
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
	return strings.Join(texts, "<br>and ")
}
