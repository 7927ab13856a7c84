package terminal

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"drydock.dev/test/kit/screen"
)

// TestPipeGetsEachLineOnce: a log of CI does not repeat what it has shown.
func TestPipeGetsEachLineOnce(t *testing.T) {
	var out bytes.Buffer
	screen := New(&out)
	for _, frame := range [][]string{{"web-1 copies"}, {"web-1 copies"}, {"web-1 copies", "web-0 waits"}, {"web-1 is moved", "web-0 waits"}} {
		if err := screen.Show(frame); err != nil {
			t.Fatal(err)
		}
	}
	want := "web-1 copies\nweb-0 waits\nweb-1 is moved\n"
	if out.String() != want || screen.Styled(Bad, "x") != "x" || screen.IsTerminal() {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

// TestFramesReplaceEachOther on a real terminal of 20 columns and 5 rows.
func TestFramesReplaceEachOther(t *testing.T) {
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	seen := screen.New(t, 20, 5)
	terminal := New(seen.Terminal)
	for _, frame := range [][]string{
		{"one", terminal.Styled(Good, "a line that is wider than the screen"), "three"},
		{"one", "two", "three", "four", "five", "six"}, // higher than the screen: a frame never scrolls
		{"last", "two"},
	} {
		if err := terminal.Show(frame); err != nil {
			t.Fatal(err)
		}
	}
	if got := seen.Close(); got != "last\ntwo" {
		t.Errorf("the screen shows %q", got)
	}
}

// TestOnlyChangedLinesAreWritten: a terminal on a slow connection must not flicker.
func TestOnlyChangedLinesAreWritten(t *testing.T) {
	t.Setenv("TERM", "xterm")
	seen := screen.New(t, 20, 8)
	terminal := New(seen.Terminal)
	var out bytes.Buffer
	terminal.out = &out
	for _, step := range []struct {
		frame []string
		want  string
	}{
		{[]string{"head", "copied 10 of 40", "end"}, clearBelow + "head\ncopied 10 of 40\nend\n"},
		{[]string{"head", "copied 10 of 40", "end"}, ""},
		{[]string{"head", "copied 9 of 40", "end"}, "\x1b[3A\r\ncopied 9 of 40\x1b[K\n\n"},
		{[]string{"head", "exactly as wide, 20.", "end"}, "\x1b[3A\r\nexactly as wide, 20.\n\n"},
		{[]string{"head"}, "\x1b[3A\r\n\x1b[J"},
	} {
		out.Reset()
		if err := terminal.Show(step.frame); err != nil {
			t.Fatal(err)
		}
		if out.String() != step.want {
			t.Errorf("frame %q: wrote %q, want %q", step.frame, out.String(), step.want)
		}
	}
}

// TestLinesThatDoNotFitAreCounted: a frame never scrolls, or the next one would not replace it.
func TestLinesThatDoNotFitAreCounted(t *testing.T) {
	t.Setenv("TERM", "xterm")
	got := fit([]string{"a text of 20 columns", "two", "three", "four"}, 12, 4)
	want := []string{"a text of 2…", "two", "… 2 more lin"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestColoursAreOnlyForTerminals(t *testing.T) {
	t.Setenv("TERM", "xterm")
	for _, noColor := range []string{"", "1"} {
		t.Setenv("NO_COLOR", noColor)
		text := New(screen.New(t, 80, 24).Terminal).Styled(Good, "moved")
		if colored := text != "moved"; colored != (noColor == "") || ansi.Strip(text) != "moved" {
			t.Errorf("NO_COLOR=%q: %q", noColor, text)
		}
	}
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if New(file).IsTerminal() {
		t.Error("a file counts as a terminal")
	}
}
