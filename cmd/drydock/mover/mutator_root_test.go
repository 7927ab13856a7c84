//go:build linux && root

package mover

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/target"
	"drydock.dev/cmd/drydock/mover/tree"
	"drydock.dev/cmd/drydock/mover/units"
)

// mutator changes a tree at random. It ignores operations that fail.
type mutator struct {
	mu   sync.Mutex
	r    *rand.Rand
	root string
	log  []string
}

func (m *mutator) note(format string, args ...any) {
	m.log = append(m.log, fmt.Sprintf(format, args...))
}

// paths returns the paths of the entries of a type. 0 means all types.
func (m *mutator) paths(kind fs.FileMode, isWanted bool) []string {
	var all []string
	_ = filepath.WalkDir(m.root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && path != m.root && (d.Type() == kind) == isWanted && !strings.HasPrefix(d.Name(), target.TempPrefix) {
			all = append(all, path)
		}
		return nil
	})
	return all
}

func (m *mutator) pick(all []string) string {
	if len(all) == 0 {
		return filepath.Join(m.root, "none")
	}
	return all[m.r.IntN(len(all))]
}

func (m *mutator) file() string { return m.pick(m.paths(0, true)) }
func (m *mutator) dir() string  { return m.pick(append(m.paths(fs.ModeDir, true), m.root)) }
func (m *mutator) any() string  { return m.pick(m.paths(fs.ModeIrregular, false)) }

func (m *mutator) name() string {
	switch m.r.IntN(12) {
	case 0:
		return strings.Repeat(string(rune('a'+m.r.IntN(3))), 255)
	case 1:
		return strings.Repeat("\xff", 1+m.r.IntN(255))
	case 2:
		return []string{"new\nline", "\x01", " ", "...", "-rf", `\"'`, "\xc3\x28", "a", "a\x01", "a.", "a/"[:1]}[m.r.IntN(11)]
	}
	return fmt.Sprintf("n%03d", m.r.IntN(300))
}

func (m *mutator) newPath() string { return filepath.Join(m.dir(), m.name()) }

// bigSize returns a size near a border of a unit or of the smallest big file.
func (m *mutator) bigSize() int64 {
	return max(0, tree.BigFileMin+int64(m.r.IntN(20)-2)*units.Size+[]int64{-1, 0, 1, 4095, 4096, 12345}[m.r.IntN(6)])
}

var extremeTimes = []int64{-1 << 31, -1, 0, 1, 1<<31 - 1, 1 << 31, 1 << 32, 1_700_000_000, 7_000_000_000}

// keepTime runs f and sets the modification time of the path back.
func keepTime(path string, f func() error) error {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return err
	}
	if err := f(); err != nil {
		return err
	}
	ts := []unix.Timespec{st.Mtim, st.Mtim}
	return unix.UtimesNanoAt(unix.AT_FDCWD, path, ts, unix.AT_SYMLINK_NOFOLLOW)
}

// writeAt writes a few bytes. Zeros and two letters make it likely that contents come back.
func (m *mutator) writeAt(path string, off int64, n int) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteAt(bytes.Repeat([]byte{[]byte{0, 'a', 'b'}[m.r.IntN(3)]}, n), off)
	return err
}

func (m *mutator) size(path string) int64 {
	st, err := os.Lstat(path)
	if err != nil {
		return 0
	}
	return st.Size()
}

// mutate makes n random changes. Workers of a copy may call it.
func (m *mutator) mutate(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for range n {
		o := operations[m.r.IntN(len(operations))]
		err := o.do(m)
		m.note("%s: %v", o.name, err)
	}
}

// sometimes makes a change in one of n calls.
func (m *mutator) sometimes(n int) {
	m.mu.Lock()
	now := m.r.IntN(n) == 0
	m.mu.Unlock()
	if now {
		m.mutate(1)
	}
}
