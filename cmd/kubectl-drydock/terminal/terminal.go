// Package terminal shows text on a terminal: with colours, and with frames that replace each other. Elsewhere, for example in a pipe or a
// log of CI, it writes plain lines and repeats none.
package terminal

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"
)

// Style is the look of a text on a terminal.
type Style int

const (
	Plain Style = iota
	Bold
	Dim
	Good
	Attention
	Bad
)

var styles = map[Style]ansi.Style{
	Bold:      ansi.NewStyle().Bold(),
	Dim:       ansi.NewStyle().Faint(),
	Good:      ansi.NewStyle().ForegroundColor(ansi.Green),
	Attention: ansi.NewStyle().ForegroundColor(ansi.Yellow),
	Bad:       ansi.NewStyle().ForegroundColor(ansi.Red),
}

// clearBelow erases from the cursor to the end of the screen.
const clearBelow = "\x1b[J"

// Terminal writes to one stream. Only one goroutine may use it.
type Terminal struct {
	out  io.Writer
	file *os.File // nil if out is not a terminal
	// colored is false without a terminal, and if the user has set NO_COLOR (no-color.org).
	colored bool
	frame   []string
}

// New returns the terminal behind the stream.
func New(out io.Writer) *Terminal {
	t := &Terminal{out: out}
	if file, ok := out.(*os.File); ok && term.IsTerminal(int(file.Fd())) && os.Getenv("TERM") != "dumb" {
		t.file, t.colored = file, os.Getenv("NO_COLOR") == ""
	}
	return t
}

// IsTerminal reports whether the stream is a terminal that can replace frames.
func (t *Terminal) IsTerminal() bool { return t.file != nil }

// Styled returns the text in the style. Without colours it returns the text alone.
func (t *Terminal) Styled(style Style, text string) string {
	look, known := styles[style]
	if !t.colored || !known {
		return text
	}
	return look.Styled(text)
}

// Show replaces the frame before with these lines. Lines that do not fit on the screen are cut or left out. Without a terminal, it writes
// only the lines that the frame before does not have.
func (t *Terminal) Show(lines []string) error {
	var b strings.Builder
	switch {
	case t.file == nil:
		for _, line := range lines {
			if !slices.Contains(t.frame, line) {
				fmt.Fprintln(&b, line)
			}
		}
	default:
		lines = t.fit(lines)
		if len(t.frame) > 0 {
			fmt.Fprintf(&b, "\x1b[%dA\r", len(t.frame))
		}
		b.WriteString(clearBelow)
		for _, line := range lines {
			fmt.Fprintln(&b, line)
		}
	}
	t.frame = lines
	_, err := io.WriteString(t.out, b.String())
	return err
}

// fit cuts the lines to the size of the screen. The cursor stays on the line below, so one row of the screen stays free.
func (t *Terminal) fit(lines []string) []string {
	width, height, err := term.GetSize(int(t.file.Fd()))
	if err != nil || width <= 0 || height <= 1 {
		return lines
	}
	fitting := make([]string, 0, min(len(lines), height-1))
	for i, line := range lines {
		if len(lines) > height-1 && i == height-2 {
			return append(fitting, ansi.Truncate(fmt.Sprintf("… %d more lines", len(lines)-i), width, ""))
		}
		fitting = append(fitting, ansi.Truncate(line, width, "…"))
	}
	return fitting
}

// Width returns the number of columns of the terminal. It is 0 if the output is not a terminal: a pipe has no width.
func (t *Terminal) Width() int {
	if t.file == nil {
		return 0
	}
	width, _, err := term.GetSize(int(t.file.Fd()))
	if err != nil {
		return 0
	}
	return width
}
