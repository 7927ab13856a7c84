// Package show prints the demo's output: a log of lines, moving bars below it, and a table at the end. Without a terminal, as in CI,
// it prints plain lines only.
package show

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// Style is the terminal escape sequence for a line.
type Style string

const (
	Plain  Style = ""
	Dim    Style = "\x1b[2m"
	Bold   Style = "\x1b[1m"
	Good   Style = "\x1b[32m"
	Bad    Style = "\x1b[31m"
	Accent Style = "\x1b[36m"
	reset        = "\x1b[0m"
)

// Escape sequences that redraw the bars.
const (
	lineUp     = "\x1b[1A"
	clearBelow = "\r\x1b[J"
)

const barIndent = "                 "

// plainPeriod is the minimum time between two lines for a moving bar if there is no terminal.
const plainPeriod = 2 * time.Second

// Screen is safe for use by several goroutines.
type Screen struct {
	out   io.Writer
	live  bool // bars can be redrawn
	color bool
	width int // columns; 0 for no limit

	mu      sync.Mutex
	bars    []Bar
	drawn   int                  // lines of bars on the terminal
	printed map[string]time.Time // by bar: when it was last printed, without a terminal
}

// NewScreenTo returns a screen that prints plain lines.
func NewScreenTo(out io.Writer) *Screen { return &Screen{out: out, printed: map[string]time.Time{}} }

// NewScreen returns a screen that draws on the file if it is a terminal, and prints plain lines if not.
func NewScreen(file *os.File) *Screen {
	s := NewScreenTo(file)
	if !term.IsTerminal(int(file.Fd())) || os.Getenv("TERM") == "dumb" {
		return s
	}
	s.live, s.color = true, os.Getenv("NO_COLOR") == ""
	if width, _, err := term.GetSize(int(file.Fd())); err == nil {
		s.width = width
	}
	return s
}

// Line prints a line above the bars. A dim line is cut to the width of the terminal.
func (s *Screen) Line(style Style, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	text := fmt.Sprintf(format, args...)
	if style == Dim {
		text = s.cut(text)
	}
	s.print(style, text)
	s.draw()
}

// Move adds or updates the bar with that name.
func (s *Screen) Move(bar Bar) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.set(bar)
	if s.live {
		s.erase()
		s.draw()
		return
	}
	if before == bar || (before.Note == bar.Note && time.Since(s.printed[bar.Name]) < plainPeriod) {
		return
	}
	s.printed[bar.Name] = time.Now()
	s.print(Plain, barIndent+bar.String())
}

// set stores the bar, sorted by name, and returns its previous state.
func (s *Screen) set(bar Bar) (before Bar) {
	i, found := slices.BinarySearchFunc(s.bars, bar.Name, func(b Bar, name string) int { return strings.Compare(b.Name, name) })
	if found {
		before, s.bars[i] = s.bars[i], bar
		return before
	}
	s.bars = slices.Insert(s.bars, i, bar)
	return Bar{}
}

// DetachBars leaves the present bars on the screen. Later bars are drawn below them.
func (s *Screen) DetachBars() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bars, s.drawn = nil, 0
}

func (s *Screen) erase() {
	if s.drawn == 0 {
		return
	}
	_, _ = io.WriteString(s.out, strings.Repeat(lineUp, s.drawn)+clearBelow)
	s.drawn = 0
}

func (s *Screen) draw() {
	if !s.live {
		return
	}
	for _, bar := range s.bars {
		s.print(Accent, s.cut(barIndent+bar.String())) // a wrapped line could not be erased
	}
	s.drawn = len(s.bars)
}

func (s *Screen) print(style Style, text string) {
	if s.color && style != Plain {
		text = string(style) + text + reset
	}
	_, _ = fmt.Fprintln(s.out, text)
}

// cut shortens a line to the width of the terminal.
func (s *Screen) cut(text string) string {
	if runes := []rune(text); s.width > 1 && len(runes) >= s.width {
		return string(runes[:s.width-2]) + "…"
	}
	return text
}
