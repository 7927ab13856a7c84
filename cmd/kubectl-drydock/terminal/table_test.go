package terminal

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"

	"drydock.dev/test/kit/screen"
)

// TestTextIsWrappedBetweenWords: a command stays whole, so that it can be copied.
func TestTextIsWrappedBetweenWords(t *testing.T) {
	for _, row := range []struct {
		situation, text string
		width           int
		want            []string
	}{
		{"a pipe", "one two three", 0, []string{"one two three"}},
		{"it fits", "one two three", 13, []string{"one two three"}},
		{"it does not fit", "one two three", 12, []string{"one two", "three"}},
		{"a word is too wide", "a data-of-a-long-name b", 8, []string{"a", "data-of-a-long-name", "b"}},
		{"wide characters", "数据 数据 数据", 9, []string{"数据 数据", "数据"}},
		{"a command at the end", "you opt in: kubectl label sts web a=b", 15, []string{"you opt in:", "kubectl label sts web a=b"}},
		{"a command within a sentence", "run kubectl get pv web, then wait", 10, []string{"run", "kubectl get pv web,", "then wait"}},
	} {
		if diff := cmp.Diff(row.want, Wrap(row.text, row.width)); diff != "" {
			t.Errorf("%s: %s", row.situation, diff)
		}
	}
}

func TestTableFitsTheTerminal(t *testing.T) {
	rows := [][]string{{"CLAIM", "OLD VOLUME", "ACCESS", "USED BY"},
		{"data-web-0", "pvc-0d1f6f5e-8f0c-4f0e-b0a5", "ReadWriteOnce", "web-0, reports (not in the set), backup (not in the set)"},
		{"data-web-1", "pvc-1", "ReadWriteOnce", "no pod"}}
	for width, header := range map[int]string{0: "CLAIM OLD VOLUME ACCESS USED BY", 90: "CLAIM OLD VOLUME ACCESS USED BY",
		60: "CLAIM ACCESS USED BY", 40: "CLAIM USED BY"} {
		lines := Table(rows, width, "OLD VOLUME", "ACCESS", "CLASS")
		if got := strings.Join(strings.Fields(lines[0]), " "); got != header {
			t.Errorf("%d columns: %q, want %q", width, got, header)
		}
		for _, line := range lines {
			if width > 0 && ansi.StringWidth(line) > width || strings.HasSuffix(line, " ") {
				t.Errorf("%d columns: %q has %d", width, line, ansi.StringWidth(line))
			}
		}
		if text := strings.Join(lines, " "); !strings.Contains(strings.Join(strings.Fields(text), " "), "backup (not in the set) data-web-1") {
			t.Errorf("%d columns: %q", width, lines)
		}
	}
}

func TestOnlyATerminalHasAWidth(t *testing.T) {
	t.Setenv("TERM", "xterm")
	if got := New(screen.New(t, 77, 5).Terminal).Width(); got != 77 {
		t.Errorf("a terminal of 77 columns has %d", got)
	}
	if got := New(&strings.Builder{}).Width(); got != 0 {
		t.Errorf("a pipe has %d columns", got)
	}
}
