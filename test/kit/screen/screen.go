// Package screen runs programs on a real pseudo terminal, and shows the screen of a person at it.
package screen

import (
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"
)

// Size of the screen.
const (
	Columns = 130
	Rows    = 45
)

// Screen is a pseudo terminal with the text that it shows.
type Screen struct {
	// Terminal is the side of the program.
	Terminal *os.File

	master *os.File
	view   vt10x.Terminal
	ended  chan struct{}

	mu     sync.Mutex
	frames []string
}

// New opens a screen of this size. It ends with the test.
func New(t testing.TB, columns, rows int) *Screen {
	t.Helper()
	master, terminal, err := pty.Open()
	if err != nil {
		t.Fatalf("opening a pseudo terminal: %v", err)
	}
	if err := pty.Setsize(master, &pty.Winsize{Rows: uint16(rows), Cols: uint16(columns)}); err != nil {
		t.Fatalf("sizing the pseudo terminal: %v", err)
	}
	s := &Screen{Terminal: terminal, master: master, view: vt10x.New(vt10x.WithSize(columns, rows)), ended: make(chan struct{})}
	go s.read()
	t.Cleanup(func() { _, _ = terminal.Close(), master.Close() })
	return s
}

// read draws the output of the program, until its side is closed.
func (s *Screen) read() {
	defer close(s.ended)
	buffer := make([]byte, 64<<10)
	for {
		n, err := s.master.Read(buffer)
		if n > 0 {
			_, _ = s.view.Write(buffer[:n])
			s.mu.Lock()
			s.frames = append(s.frames, s.text())
			s.mu.Unlock()
		}
		if err != nil {
			return
		}
	}
}

// Run starts the program on the screen.
func (s *Screen) Run(t testing.TB, program *exec.Cmd) {
	t.Helper()
	program.Stdin, program.Stdout, program.Stderr = s.Terminal, s.Terminal, s.Terminal
	program.Env = append(program.Environ(), "TERM=xterm-256color")
	if err := program.Start(); err != nil {
		t.Fatalf("starting %s: %v", program, err)
	}
}

// Type types the text.
func (s *Screen) Type(t testing.TB, text string) {
	t.Helper()
	if _, err := io.WriteString(s.master, text); err != nil {
		t.Fatalf("typing %q: %v", text, err)
	}
}

// Close ends the side of the program, waits until everything is drawn, and returns the last frame.
func (s *Screen) Close() string {
	_ = s.Terminal.Close()
	<-s.ended
	return s.Text()
}

// Text returns the text on the screen now, without trailing spaces and lines.
func (s *Screen) Text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.frames) == 0 {
		return ""
	}
	return s.frames[len(s.frames)-1]
}

// Frames returns the text on the screen after each write of the program.
func (s *Screen) Frames() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.frames
}

func (s *Screen) text() string {
	var lines []string
	for line := range strings.SplitSeq(s.view.String(), "\n") {
		lines = append(lines, strings.TrimRight(line, " "))
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}
