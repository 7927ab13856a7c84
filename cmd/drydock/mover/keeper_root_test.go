//go:build linux && root

package mover

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/fsys"
	"drydock.dev/cmd/drydock/mover/write"
)

// The source is in use, so a first pass reads a small file of it only once. It reads the file again to verify it if the hash of
// the copied contents does not prove enough.
func TestSmallFilesOfSourceAreReadOnce(t *testing.T) {
	src, dst := newVolume(t, 64), newVolume(t, 64)
	runCommand(t, "mount", "-o", "remount,strictatime", src.dir)
	at := func(name string) string { return filepath.Join(src.dir, name) }
	writeFile(t, at("small"), "x")
	writeFile(t, at("one read"), strings.Repeat("x", write.CopyRangeMin-1))
	writeFile(t, at("zeros"), strings.Repeat("\x00", 5000))
	writeFile(t, at("large"), strings.Repeat("x", fsys.BufferSize+1))
	writeFile(t, at("attribute"), "x")
	must(t, unix.Setxattr(at("attribute"), "user.x", []byte("y"), 0))
	writeFile(t, at("linked"), "x")
	must(t, os.Link(at("linked"), at("linked too")))
	waitSettled()
	readAgain := map[string]bool{"large": true, "attribute": true, "linked": true}

	before := map[string]unix.Timespec{}
	o := firstPass(src.dir, dst.dir)
	o.hooks.synced = func() {
		for _, name := range strings.Split(namesIn(t, src.dir), ",") {
			before[name] = accessTime(t, at(name))
		}
	}
	if r := runFirstPass(t, o); r.RecordedFiles != 6 {
		t.Errorf("%+v", r)
	}
	for name, was := range before {
		if name == "lost+found" || name == "linked too" {
			continue
		}
		if read := accessTime(t, at(name)) != was; read != readAgain[name] {
			t.Errorf("%q was read to verify it: %v", name, read)
		}
	}
	copyTree(t, finalPass(src.dir, dst.dir))
	requireEqualTrees(t, src.dir, dst.dir)
}

func accessTime(t *testing.T, path string) unix.Timespec {
	t.Helper()
	var st unix.Stat_t
	must(t, unix.Stat(path, &st))
	return st.Atim
}

// A file that changes after it was copied is not recorded, even if its size and time are as before.
// Invariants: I1.
func TestChangeAfterCopyingIsSeen(t *testing.T) {
	src, dst := newVolume(t, 64), newVolume(t, 64)
	path := src.dir + "/f"
	writeFile(t, path, "before")
	waitSettled()
	info, err := os.Stat(path)
	must(t, err)
	o := firstPass(src.dir, dst.dir)
	o.hooks.synced = func() {
		must(t, rewriteAs(path, "behind"))
		must(t, os.Chtimes(path, info.ModTime(), info.ModTime()))
	}
	if r := runFirstPass(t, o); r.RecordedFiles != 0 {
		t.Errorf("%+v", r)
	}
	copyTree(t, finalPass(src.dir, dst.dir))
	requireEqualTrees(t, src.dir, dst.dir)
}

// A damaged copy is found without a second read of the source.
// Invariants: I1.
func TestDamagedCopyOfSmallFileIsFound(t *testing.T) {
	src, dst := newVolume(t, 64), newVolume(t, 64)
	writeFile(t, src.dir+"/f", "before")
	waitSettled()
	info, err := os.Stat(src.dir + "/f")
	must(t, err)
	o := firstPass(src.dir, dst.dir)
	o.hooks.synced = func() {
		must(t, rewriteAs(dst.dir+"/f", "behind"))
		must(t, os.Chtimes(dst.dir+"/f", info.ModTime(), info.ModTime()))
	}
	_, err = Copy(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), "contents differ") {
		t.Errorf("got %v", err)
	}
	runFirstPass(t, firstPass(src.dir, dst.dir))
	copyTree(t, finalPass(src.dir, dst.dir))
	requireEqualTrees(t, src.dir, dst.dir)
}
