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

// TestLinesThatDoNotFitAreCounted: a frame never scrolls, or the next one would not replace it.
func TestLinesThatDoNotFitAreCounted(t *testing.T) {
	t.Setenv("TERM", "xterm")
	got := New(screen.New(t, 12, 4).Terminal).fit([]string{"a text of 20 columns", "two", "three", "four"})
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
