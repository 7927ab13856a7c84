package terminal

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/creack/pty"
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

// TestFramesReplaceEachOther on a real terminal of 20 columns and 5 rows. The screen afterwards shows the last frame only.
func TestFramesReplaceEachOther(t *testing.T) {
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	master, terminal, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	if err := pty.Setsize(master, &pty.Winsize{Rows: 5, Cols: 20}); err != nil {
		t.Fatal(err)
	}
	written := make(chan string)
	go func() {
		all, _ := io.ReadAll(master) // ends with an error when the other side is closed
		written <- string(all)
	}()
	screen := New(terminal)
	frames := [][]string{
		{"one", screen.Styled(Good, "a line that is wider than the screen"), "three"},
		{"one", "two", "three", "four", "five", "six"},
		{"last"},
	}
	for _, frame := range frames {
		if err := screen.Show(frame); err != nil {
			t.Fatal(err)
		}
	}
	if err := terminal.Close(); err != nil {
		t.Fatal(err)
	}
	got := render(<-written)
	if want := []string{"last"}; strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the screen shows %q, want %q", got, want)
	}
}

// TestLinesThatDoNotFitAreCounted: a frame never scrolls, or the next one would not replace it.
func TestLinesThatDoNotFitAreCounted(t *testing.T) {
	t.Setenv("TERM", "xterm")
	master, terminal, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	defer terminal.Close()
	if err := pty.Setsize(master, &pty.Winsize{Rows: 4, Cols: 12}); err != nil {
		t.Fatal(err)
	}
	got := New(terminal).fit([]string{"a text of 20 columns", "two", "three", "four"})
	want := []string{"a text of 2…", "two", "… 2 more lin"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestColoursAreOnlyForTerminals(t *testing.T) {
	t.Setenv("TERM", "xterm")
	for _, noColor := range []string{"", "1"} {
		t.Setenv("NO_COLOR", noColor)
		master, terminal, err := pty.Open()
		if err != nil {
			t.Fatal(err)
		}
		text := New(terminal).Styled(Good, "moved")
		if colored := text != "moved"; colored != (noColor == "") || ansi.Strip(text) != "moved" {
			t.Errorf("NO_COLOR=%q: %q", noColor, text)
		}
		_, _ = terminal.Close(), master.Close()
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

// render returns the rows that a terminal shows after these bytes. It knows the sequences that Show writes.
func render(written string) []string {
	var rows []string
	row := 0
	for len(written) > 0 {
		switch {
		case strings.HasPrefix(written, clearBelow):
			rows, written = rows[:min(row, len(rows))], written[len(clearBelow):]
		case strings.HasPrefix(written, "\x1b["):
			end := strings.IndexAny(written, "ABCDm")
			if written[end] == 'A' {
				up := 0
				for _, digit := range written[2:end] {
					up = up*10 + int(digit-'0')
				}
				row -= up
			}
			written = written[end+1:]
		case written[0] == '\n':
			row, written = row+1, written[1:]
		case written[0] == '\r':
			written = written[1:]
		default:
			for len(rows) <= row {
				rows = append(rows, "")
			}
			rows[row] += written[:1]
			written = written[1:]
		}
	}
	return rows
}
