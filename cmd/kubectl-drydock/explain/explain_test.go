package explain

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"drydock.dev/docs"
	"drydock.dev/test/golden"
)

// TestEveryReasonIsExplained: the list of reasons is complete. Each reason and each alert has a sentence.
func TestEveryReasonIsExplained(t *testing.T) {
	names := Reasons()
	if len(names) < 50 {
		t.Fatalf("only %d reasons were found", len(names))
	}
	for _, name := range Names() {
		if e, ok := Find(name); !ok || e.Meaning == "" {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

// pointers begin a remedy that sends the reader to another place of the page. The command shows one row alone.
var pointers = regexp.MustCompile(`(?i)^(as |see |the same\b|look it up)|\b(above|below)$`)

// TestRemediesAreUnderstoodAlone: each row of the page about troubleshooting has a remedy, not the title of another section.
func TestRemediesAreUnderstoodAlone(t *testing.T) {
	var titles []string
	for line := range strings.Lines(docs.Troubleshooting) {
		if marks, title, ok := strings.Cut(strings.TrimSpace(line), " "); ok && strings.Trim(marks, "#") == "" {
			titles = append(titles, title)
		}
	}
	if len(titles) < 10 {
		t.Fatalf("only %d titles were found", len(titles))
	}
	for _, row := range rows() {
		remedy := plain(row.cells[len(row.cells)-1])
		if remedy == "" || slices.Contains(titles, remedy) || pointers.MatchString(remedy) {
			t.Errorf("section %q, row %q: %q is no remedy", row.situation, plain(row.cells[0]), remedy)
		}
	}
}

func TestExplanations(t *testing.T) {
	file := golden.Open(t)
	for _, reason := range []string{
		"UpToDate", "unknownclass", "RuntimeUnsupported", "DeadlineExceeded", "CopyFailed", "nospace", "drydockmemberheldlong", "DrydockNoSweep",
	} {
		e, ok := Find(reason)
		if !ok {
			t.Errorf("%s is unknown", reason)
			continue
		}
		text, err := json.MarshalIndent(e, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		file.Entry(t, reason, string(text))
	}
	if e, ok := Find("NoSuchReason"); ok {
		t.Errorf("%+v", e)
	}
}
