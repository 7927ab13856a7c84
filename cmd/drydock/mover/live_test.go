//go:build linux && root

package mover

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// live is a source in use. Page 0 of each mapped file is mapped and dirty.
type live struct {
	t      testing.TB
	r      *rand.Rand
	dir    string
	mu     sync.Mutex
	mapped [][]byte
	made   int
}

func newLive(t testing.TB, r *rand.Rand, dir string) *live {
	t.Helper()
	w := &live{t: t, r: r, dir: dir}
	must(t, os.MkdirAll(filepath.Join(dir, "d/e"), 0o755))
	for i := range 24 {
		path := filepath.Join(dir, []string{"", "d", "d/e"}[i%3], fmt.Sprintf("f%d", i))
		must(t, os.WriteFile(path, bytes.Repeat([]byte{byte(i)}, 1+r.IntN(300_000)), 0o644))
		if i%8 == 0 {
			must(t, os.Link(path, filepath.Join(dir, "d", fmt.Sprintf("link%d", i))))
		}
	}
	for i := range 2 {
		w.mapFile(fmt.Sprintf("mapped%d", i))
	}
	waitSettled()
	return w
}

// mapFile creates a file and writes to a mapping of it. After that, writes leave no trace until the page was clean
// again.
func (w *live) mapFile(name string) {
	w.t.Helper()
	f, err := os.Create(filepath.Join(w.dir, name))
	must(w.t, err)
	defer f.Close()
	must(w.t, f.Truncate(8192))
	m, err := unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	must(w.t, err)
	w.t.Cleanup(func() { must(w.t, unix.Munmap(m)) })
	m[0]++
	w.mapped = append(w.mapped, m)
}

// pick returns a regular file that exists.
func (w *live) pick() string {
	var all []string
	_ = filepath.WalkDir(w.dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && !strings.HasPrefix(d.Name(), "mapped") {
			all = append(all, path)
		}
		return nil
	})
	if len(all) == 0 {
		return w.newFile()
	}
	return all[w.r.IntN(len(all))]
}

func (w *live) newFile() string {
	w.made++
	path := filepath.Join(w.dir, fmt.Sprintf("new%d", w.made))
	writeFile(w.t, path, strings.Repeat("n", w.r.IntN(100_000)))
	return path
}

// rewrite changes a byte of a file, but not its size and mtime.
func rewrite(path string) error {
	st, err := os.Stat(path)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close() // a test's
	b := []byte{0}
	if _, err := f.ReadAt(b, st.Size()/2); err != nil && st.Size() > 0 {
		return err
	}
	b[0]++
	if _, err := f.WriteAt(b, st.Size()/2); err != nil {
		return err
	}
	return os.Chtimes(path, st.ModTime(), st.ModTime())
}

// replace replaces a file by another one of the same size and time.
func replace(path string) error {
	st, err := os.Stat(path)
	if err != nil {
		return err
	}
	err = os.WriteFile(path+".tmp", bytes.Repeat([]byte{'r'}, int(st.Size())), st.Mode())
	if err == nil {
		err = os.Chtimes(path+".tmp", st.ModTime(), st.ModTime())
	}
	if err == nil {
		err = os.Rename(path+".tmp", path)
	}
	return err
}

// changes are all kinds of changes that a workload makes to files.
var changes = []struct {
	name string
	do   func(w *live) error
}{
	{"written to, size and time kept", func(w *live) error { return rewrite(w.pick()) }},
	{"written to through a dirty mapping", func(w *live) error { w.mapped[w.r.IntN(len(w.mapped))][w.r.IntN(4096)]++; return nil }},
	{"replaced by one of the same size and time", func(w *live) error { return replace(w.pick()) }},
	{"linked", func(w *live) error { w.made++; return os.Link(w.pick(), fmt.Sprintf("%s/hard%d", w.dir, w.made)) }},
	{"deleted", func(w *live) error { return os.Remove(w.pick()) }},
	{"another mode", func(w *live) error { return os.Chmod(w.pick(), os.FileMode(0o600+w.r.IntN(64))) }},
	{"another owner", func(w *live) error { return os.Chown(w.pick(), 1+w.r.IntN(9), 1) }},
	{"another attribute", func(w *live) error { return unix.Setxattr(w.pick(), "user.x", []byte{byte(w.r.IntN(256))}, 0) }},
	{"rewritten", func(w *live) error {
		return os.WriteFile(w.pick(), bytes.Repeat([]byte("w"), w.r.IntN(200_000)), 0o644)
	}},
	{"shortened", func(w *live) error { return os.Truncate(w.pick(), int64(w.r.IntN(100))) }},
	{"a directory instead", func(w *live) error {
		p := w.pick()
		return firstError(os.Remove(p), firstError(os.Mkdir(p, 0o755), os.WriteFile(p+"/inside", []byte("x"), 0o644)))
	}},
	{"a link instead", func(w *live) error { p := w.pick(); return firstError(os.Remove(p), os.Symlink("nowhere", p)) }},
	{"a new file", func(w *live) error { w.newFile(); return nil }},
	{"two files swapped", func(w *live) error {
		return unix.Renameat2(unix.AT_FDCWD, w.pick(), unix.AT_FDCWD, w.pick(), unix.RENAME_EXCHANGE)
	}},
	{"a directory moved", func(w *live) error {
		w.made++
		if err := os.Rename(w.dir+"/d/e", fmt.Sprintf("%s/moved%d", w.dir, w.made)); err != nil {
			return nil // moved already
		}
		return os.Mkdir(w.dir+"/d/e", 0o755)
	}},
	{"a directory deleted", func(w *live) error { return os.RemoveAll(w.dir + "/d/e") }},
}

// change makes a random change. The workers may call it.
func (w *live) change() {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := changes[w.r.IntN(len(changes))]
	if err := c.do(w); err != nil && err != unix.EINVAL && !os.IsNotExist(err) && !os.IsExist(err) {
		w.t.Errorf("%s: %v", c.name, err)
	}
}

// sometimes returns a function that makes a change in one of n calls.
func (w *live) sometimes(n int) func() {
	return func() {
		w.mu.Lock()
		now := w.r.IntN(n) == 0
		w.mu.Unlock()
		if now {
			w.change()
		}
	}
}
