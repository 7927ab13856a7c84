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

const (
	// clearBelow erases from the cursor to the end of the screen.
	clearBelow = "\x1b[J"
	// clearRight erases from the cursor to the end of the line.
	clearRight = "\x1b[K"
)

// Terminal writes to one stream. Only one goroutine may use it.
type Terminal struct {
	out  io.Writer
	file *os.File // nil if out is not a terminal
	// colored is false without a terminal, and if the user has set NO_COLOR (no-color.org).
	colored bool
	frame   []string
	size    [2]int // width and height of the screen that shows the frame
}

// Width returns the number of columns of the screen, or 0 if there is no terminal.
func (t *Terminal) Width() int {
	if t.file == nil {
		return 0
	}
	width, _, err := term.GetSize(int(t.file.Fd()))
	if err != nil {
		return 0
	}
	return max(width, 0)
}

// New returns the terminal behind the stream. A stream that passes everything on to a terminal has the method Unwrap.
func New(out io.Writer) *Terminal {
	t := &Terminal{out: out}
	if wrapped, ok := out.(interface{ Unwrap() io.Writer }); ok {
		out = wrapped.Unwrap()
	}
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
	var frame string
	if t.file == nil {
		frame = newLines(t.frame, lines)
	} else {
		lines, frame = t.redraw(lines)
	}
	t.frame = lines
	if frame == "" {
		return nil
	}
	_, err := io.WriteString(t.out, frame)
	return err
}

// newLines returns the lines that the frame before does not have.
func newLines(before, lines []string) string {
	var b strings.Builder
	for _, line := range lines {
		if !slices.Contains(before, line) {
			fmt.Fprintln(&b, line)
		}
	}
	return b.String()
}

// redraw returns the lines as they fit on the screen, and what shows them in place of the frame before. Lines that are the same are not
// written again, and no line is erased before it is written: a slow terminal would flicker.
func (t *Terminal) redraw(lines []string) ([]string, string) {
	width, height, err := term.GetSize(int(t.file.Fd()))
	if err != nil {
		width, height = 0, 0
	}
	lines = fit(lines, width, height)
	size := [2]int{width, height}
	resized := t.size != size // the terminal may have wrapped the lines anew
	t.size = size
	if !resized && slices.Equal(lines, t.frame) {
		return lines, ""
	}
	var b strings.Builder
	if len(t.frame) > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\r", len(t.frame))
	}
	before := t.frame
	if resized {
		b.WriteString(clearBelow)
		before = nil
	}
	for i, line := range lines {
		switch {
		case i >= len(before):
			b.WriteString(line)
		case line != before[i]:
			b.WriteString(line)
			if ansi.StringWidth(line) < ansi.StringWidth(before[i]) { // after a line as wide as the screen, it would erase a character
				b.WriteString(clearRight)
			}
		}
		b.WriteByte('\n')
	}
	if len(lines) < len(before) {
		b.WriteString(clearBelow)
	}
	return lines, b.String()
}

// fit cuts the lines to the size of the screen. The cursor stays on the line below, so one row of the screen stays free.
func fit(lines []string, width, height int) []string {
	if width <= 0 || height <= 1 {
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
