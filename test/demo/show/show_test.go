package show

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestBarShowsPercentAndAmount(t *testing.T) {
	full, none := strings.Repeat("█", barWidth), strings.Repeat("░", barWidth)
	half := strings.Repeat("█", barWidth/2) + strings.Repeat("░", barWidth/2)
	for name, test := range map[string]struct {
		bar  Bar
		want string
	}{
		"nothing is known yet": {Bar{Name: "data-web-0", Note: "scan"},
			"data-web-0   " + none + "   0%                 scan"},
		"half": {Bar{Name: "data-web-0", Note: "copy", Done: 24 << 20, Total: 48 << 20},
			"data-web-0   " + half + "  50%  24.0/48.0 MiB  copy"},
		"complete": {Bar{Name: "data-web-0", Note: "sync", Done: 48 << 20, Total: 48 << 20},
			"data-web-0   " + full + " 100%  48.0/48.0 MiB  sync"},
		"one byte is missing": {Bar{Name: "a", Note: "copy", Done: 1<<20 - 1, Total: 1 << 20},
			"a            " + full[:len(full)-len("█")] + "░  99%    1.0/1.0 MiB  copy"},
		"the total was estimated low": {Bar{Name: "a", Note: "copy", Done: 2 << 20, Total: 1 << 20},
			"a            " + full + " 100%    2.0/1.0 MiB  copy"},
		"a negative number of bytes": {Bar{Name: "a", Note: "copy", Done: -5, Total: 1 << 20},
			"a            " + none + "   0%   -0.0/1.0 MiB  copy"},
		"large numbers": {Bar{Name: "a", Note: "copy", Done: 1 << 43, Total: 1 << 44},
			"a            " + half + "  50%  8388608.0/16777216.0 MiB  copy"},
	} {
		if got := test.bar.String(); got != test.want {
			t.Errorf("%s:\n got %q\nwant %q", name, got, test.want)
		}
	}
}

func TestTableAlignsColumnsByCharactersNotBytes(t *testing.T) {
	got := Table("  ", []string{"replica", "", "downtime"}, []string{"web-0", "✓", "11.1 s"}, []string{"web-10", "✗", "9.0 s"})
	want := []string{
		"  replica     downtime",
		"  ───────  ─  ────────",
		"  web-0    ✓  11.1 s",
		"  web-10   ✗  9.0 s",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestWithoutTerminalBarIsPrintedWhenItsNoteChanges(t *testing.T) {
	var out bytes.Buffer
	s := &Screen{out: &out, printed: map[string]time.Time{}}
	s.Move(Bar{Name: "a", Note: "copy", Done: 1, Total: 10})
	s.Move(Bar{Name: "a", Note: "copy", Done: 2, Total: 10}) // within plainPeriod
	s.Line(Bold, "phase %s", "Switching")
	s.Move(Bar{Name: "a", Note: "verify", Done: 0, Total: 10})
	s.Move(Bar{Name: "a", Note: "verify", Done: 0, Total: 10}) // unchanged
	if lines := strings.Split(strings.TrimSpace(out.String()), "\n"); len(lines) != 3 || lines[1] != "phase Switching" {
		t.Errorf("got %q", out.String())
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Errorf("escape sequences without a terminal: %q", out.String())
	}
}

func TestOnTerminalBarsStayBelowLinesInOrder(t *testing.T) {
	var out bytes.Buffer
	s := &Screen{out: &out, live: true, width: 40, printed: map[string]time.Time{}}
	s.Move(Bar{Name: "b"})
	s.Move(Bar{Name: "a"})
	out.Reset()
	s.Line(Plain, "hello")
	text := out.String()
	if !strings.HasPrefix(text, lineUp+lineUp+clearBelow+"hello\n") {
		t.Errorf("the two bars were not erased first: %q", text)
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) != 3 || !strings.Contains(lines[1], " a ") || !strings.Contains(lines[2], " b ") {
		t.Errorf("the bars were not redrawn in order: %q", text)
	}
	for _, bar := range lines[1:] {
		if n := len([]rune(bar)); n >= 40 {
			t.Errorf("a bar of %d columns would wrap: %q", n, bar)
		}
	}
	s.DetachBars()
	out.Reset()
	if s.Line(Plain, "next"); out.String() != "next\n" {
		t.Errorf("detached bars were changed: %q", out.String())
	}
}
