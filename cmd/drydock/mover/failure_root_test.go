//go:build linux && root

package mover

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/tree"
	"drydock.dev/shared/moverreport"
)

// Invariants: I1.
func TestFullTarget(t *testing.T) {
	src, dst := newVolume(t, 64), newVolume(t, 8)
	for i := range 5 {
		writeFile(t, filepath.Join(src.dir, strconv.Itoa(i)), strings.Repeat("x", 4<<20))
	}
	e := copyFails(t, Options{Source: src.dir, Target: dst.dir}, moverreport.CodeNoSpace)
	if e.Reason != moverreport.ReasonNoSpace || !strings.Contains(e.Message, "full") {
		t.Error(e)
	}
	requireNoTemps(t, dst.dir)
}

// Invariants: I1.
func TestNoInodesLeft(t *testing.T) {
	src, dst := newVolume(t, 32), newVolume(t, 32, "mkfs.ext4", "-q", "-F", "-N", "32")
	for i := range 100 {
		writeFile(t, filepath.Join(src.dir, strconv.Itoa(i)), "x")
	}
	if e := copyFails(t, Options{Source: src.dir, Target: dst.dir}, moverreport.CodeNoSpace); !strings.Contains(e.Message, "inodes") {
		t.Error(e)
	}
}

// For an attribute that is too large, the system call fails as for a full file system. The error has to distinguish
// them.
func TestAttributeTooLargeForTarget(t *testing.T) {
	src, dst := newVolume(t, 400, "mkfs.xfs", "-q"), newVolume(t, 64)
	writeFile(t, filepath.Join(src.dir, "f"), "x")
	must(t, unix.Setxattr(filepath.Join(src.dir, "f"), "user.large", bytes.Repeat([]byte("x"), 30000), 0))
	if e := copyFails(t, Options{Source: src.dir, Target: dst.dir}, moverreport.CodeNotFaithful); !strings.Contains(e.Message, "user.large") {
		t.Error(e)
	}
}

// Verification finds a bit that changes on the device after the copy, because it does not read from memory.
// Invariants: I1.
func TestVerificationFindsCorruptionOnDevice(t *testing.T) {
	src, dst := newVolume(t, 32), newVolume(t, 32)
	mark := []byte("the only place where these words stand")
	contents := append(bytes.Repeat([]byte("."), 200_000), mark...)
	must(t, os.WriteFile(filepath.Join(src.dir, "good"), bytes.Repeat([]byte(","), 300_000), 0o644))
	must(t, os.WriteFile(filepath.Join(src.dir, "bad"), contents, 0o644))
	o := Options{Source: src.dir, Target: dst.dir}
	o.hooks.synced = func() { corruptOnDevice(t, dst.image, mark) }
	e := copyFails(t, o, moverreport.CodeMismatch)
	if e.Count != 1 || !strings.Contains(e.Message, `"bad"`) || !strings.Contains(e.Message, "contents differ") {
		t.Error(e)
	}
	r := copyTree(t, Options{Source: src.dir, Target: dst.dir}) // also without --checksum
	if r.Files != 1 || r.Skipped != 1 {
		t.Errorf("the next run should copy exactly one file: %+v", r)
	}
	requireEqualTrees(t, src.dir, dst.dir)
}

func corruptOnDevice(t *testing.T, image string, mark []byte) {
	t.Helper()
	all, err := os.ReadFile(image)
	must(t, err)
	at := bytes.Index(all, mark)
	if at < 0 || bytes.Count(all, mark) != 1 {
		t.Fatal("the words are not on the device exactly once")
	}
	f, err := os.OpenFile(image, os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteAt([]byte{mark[0] ^ 1}, int64(at))
	must(t, err)
	must(t, f.Close())
}

// Verification finds a difference in everything that a copy carries.
// Invariants: I1.
func TestVerificationFindsEveryDifference(t *testing.T) {
	needRoot(t)
	for name, change := range map[string]func(dir string) error{
		"an extra file":      func(dir string) error { return os.WriteFile(dir+"/extra", nil, 0o644) },
		"an extra directory": func(dir string) error { return os.Mkdir(dir+"/sub/extra", 0o755) },
		"a missing file":     func(dir string) error { return os.Remove(dir + "/sub/f") },
		"a missing dir":      func(dir string) error { return os.RemoveAll(dir + "/sub") },
		"a file for a dir": func(dir string) error {
			return firstError(os.RemoveAll(dir+"/sub"), os.WriteFile(dir+"/sub", nil, 0o644))
		},
		"a link for a dir": func(dir string) error {
			return firstError(os.Rename(dir+"/sub", dir+"/moved"), os.Symlink("moved", dir+"/sub"))
		},
		"a dir for a file":     func(dir string) error { return firstError(os.Remove(dir+"/f"), os.Mkdir(dir+"/f", 0o755)) },
		"a fifo for a file":    func(dir string) error { return firstError(os.Remove(dir+"/f"), unix.Mkfifo(dir+"/f", 0o644)) },
		"another mode":         func(dir string) error { return os.Chmod(dir+"/sub/f", 0o600) },
		"another owner":        func(dir string) error { return os.Chown(dir+"/sub", 1, 1) },
		"another owner's link": func(dir string) error { return os.Lchown(dir+"/link", 1, 1) },
		"another time":         func(dir string) error { setTime(t, dir+"/f", 5); return nil },
		"another dir's time":   func(dir string) error { setTime(t, dir+"/sub", 5); return nil },
		"another root's time":  func(dir string) error { setTime(t, dir, 5); return nil },
		"another length":       func(dir string) error { return os.Truncate(dir+"/f", 1) },
		"another target":       func(dir string) error { return firstError(os.Remove(dir+"/link"), os.Symlink("g", dir+"/link")) },
		"another attribute":    func(dir string) error { return unix.Setxattr(dir+"/f", "user.x", nil, 0) },
		"another dir's attr":   func(dir string) error { return unix.Setxattr(dir+"/sub", "user.x", nil, 0) },
		"a broken hard link": func(dir string) error {
			return firstError(os.Remove(dir+"/h2"), os.WriteFile(dir+"/h2", []byte("h"), 0o644))
		},
		"one more hard link": func(dir string) error { return os.Link(dir+"/f", dir+"/"+tree.LostFound+"/f") },
	} {
		t.Run(name, func(t *testing.T) {
			src, dst := t.TempDir(), t.TempDir()
			must(t, os.Mkdir(src+"/sub", 0o755))
			must(t, os.Mkdir(dst+"/"+tree.LostFound, 0o700))
			writeFile(t, src+"/f", "contents")
			writeFile(t, src+"/sub/f", "contents")
			writeFile(t, src+"/h1", "h")
			must(t, os.Link(src+"/h1", src+"/h2"))
			must(t, os.Symlink("f", src+"/link"))
			o := Options{Source: src, Target: dst, Workers: 2}
			o.hooks.synced = func() { must(t, change(dst)) }
			copyFails(t, o, moverreport.CodeMismatch)
			copyTree(t, Options{Source: src, Target: dst})
			requireEqualTrees(t, src, dst)
		})
	}
}
