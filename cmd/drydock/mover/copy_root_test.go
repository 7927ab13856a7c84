//go:build linux && root

package mover

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/target"
	"drydock.dev/cmd/drydock/mover/tree"
	"drydock.dev/shared/moverreport"
	"drydock.dev/test/seed"
)

func TestEveryKindOfEntryIsCopied(t *testing.T) {
	src, dst := newVolume(t, 64), newVolume(t, 64)
	allFeatures(t, src.dir)
	writeFile(t, filepath.Join(src.dir, tree.LostFound, "of the source"), "x")
	writeFile(t, filepath.Join(dst.dir, tree.LostFound, "of the target"), "x")

	r := copyTree(t, Options{Source: src.dir, Target: dst.dir})
	requireEqualTrees(t, src.dir, dst.dir)
	requireNoTemps(t, filepath.Join(dst.dir, "a"))
	for _, name := range []string{"sparse", "sparse-tail", "all-hole", "small-hole", "one-byte-hole", "odd"} {
		a, b := dataMap(t, filepath.Join(src.dir, name)), dataMap(t, filepath.Join(dst.dir, name))
		if a != b {
			t.Errorf("%s has data at %s, want %s", name, b, a)
		}
	}
	if names := namesIn(t, filepath.Join(dst.dir, tree.LostFound)); names != "of the source" {
		t.Errorf("lost+found holds %q", names)
	}

	again := copyTree(t, Options{Source: src.dir, Target: dst.dir})
	if again.Files != 0 || again.Bytes != 0 || again.Deleted != 0 || again.Skipped != r.Files {
		t.Errorf("the second copy has nothing to do, but did %+v after %+v", again, r)
	}
}

func TestCopyBetweenFileSystems(t *testing.T) {
	for _, mkfs := range [][]string{{"mkfs.xfs", "-q"}, {"mkfs.btrfs", "-q"}} {
		t.Run(mkfs[0], func(t *testing.T) {
			src, dst := newVolume(t, 64), newVolume(t, 400, mkfs...)
			allFeatures(t, src.dir)
			copyTree(t, Options{Source: src.dir, Target: dst.dir})
			requireEqualTrees(t, src.dir, dst.dir)
			back := newVolume(t, 64)
			copyTree(t, Options{Source: dst.dir, Target: back.dir})
			requireEqualTrees(t, src.dir, back.dir)
		})
	}
}

// rsync cannot check this copy, because it fails at PATH_MAX.
func TestPathsLongerThanPathMax(t *testing.T) {
	src, dst := newVolume(t, 64), newVolume(t, 64)
	makeDeepTree(t, src.dir, 100, strings.Repeat("d", 250))
	makeDeepTree(t, src.dir, 1000, "e")
	makeDeepTree(t, dst.dir, 60, strings.Repeat("d", 250))
	makeDeepTree(t, dst.dir, 60, strings.Repeat("f", 250))
	if r := copyTree(t, Options{Source: src.dir, Target: dst.dir}); r.Files != 6 {
		t.Errorf("%+v", r)
	}
}

func TestRandomTrees(t *testing.T) {
	src, dst := newVolume(t, 256), newVolume(t, 256)
	r := seed.Random(t)
	for range 6 {
		addRandomEntries(t, r, src.dir, 150)
		if r.IntN(2) == 0 {
			addRandomEntries(t, r, dst.dir, 60) // entries of an earlier use
		}
		copyTree(t, Options{Source: src.dir, Target: dst.dir, Workers: 1 + r.IntN(8)})
		requireEqualTrees(t, src.dir, dst.dir)
		requireNoTemps(t, dst.dir)
	}
}

// A file of a terabyte with a few bytes of data takes no time and no space, in verification, too.
func TestHugeSparseFile(t *testing.T) {
	src, dst := newVolume(t, 32), newVolume(t, 32)
	f, err := os.Create(filepath.Join(src.dir, "huge"))
	must(t, err)
	_, err = f.WriteAt([]byte("end"), 1<<40)
	must(t, err)
	must(t, f.Close())
	r := copyTree(t, Options{Source: src.dir, Target: dst.dir})
	if a, b := dataMap(t, f.Name()), dataMap(t, filepath.Join(dst.dir, "huge")); a != b || r.Bytes > 4096 {
		t.Errorf("data at %s, not at %s; %d bytes", b, a, r.Bytes)
	}
}

func TestNamesMissingInSourceAreDeleted(t *testing.T) {
	src, dst := newVolume(t, 32), newVolume(t, 32)
	at := func(v volume, name string) string { return filepath.Join(v.dir, name) }
	writeFile(t, at(src, "file"), "file")
	writeFile(t, at(src, "was-dir"), "now a file")
	must(t, os.Mkdir(at(src, "was-file"), 0o755))
	must(t, os.Symlink("x", at(src, "was-fifo")))
	writeFile(t, at(src, "was-link"), "now a file")

	must(t, os.MkdirAll(at(dst, "was-dir/full/of"), 0o755))
	writeFile(t, at(dst, "was-dir/full/of/files"), "x")
	writeFile(t, at(dst, "was-file"), "x")
	must(t, unix.Mkfifo(at(dst, "was-fifo"), 0o600))
	must(t, os.Symlink("nowhere", at(dst, "was-link")))
	writeFile(t, at(dst, "extra"), "x")
	writeFile(t, at(dst, target.TempPrefix+"zz"), "left by a killed run")
	makeDeepTree(t, dst.dir, 1500, "x") // deeper than it keeps directories open

	r := copyTree(t, Options{Source: src.dir, Target: dst.dir})
	requireEqualTrees(t, src.dir, dst.dir)
	if want := int64(4 + 1 + 1 + 1500 + 3); r.Deleted != want {
		t.Errorf("deleted %d, want %d", r.Deleted, want)
	}
}

// The target has links that the source does not have, and other groups of links.
func TestHardLinksAreGroupedLikeSource(t *testing.T) {
	src, dst := newVolume(t, 32), newVolume(t, 32)
	in := func(v volume, names ...string) (paths []string) {
		for _, n := range names {
			paths = append(paths, filepath.Join(v.dir, n))
		}
		return paths
	}
	group := func(paths []string) {
		writeFile(t, paths[0], "same")
		setTime(t, paths[0], 1e18)
		for _, p := range paths[1:] {
			must(t, os.Link(paths[0], p))
		}
	}
	group(in(src, "a", "b"))
	group(in(src, "c", "d"))
	group(in(src, "e"))
	group(in(src, "f"))
	group(in(dst, "a", "c", "e", "extra")) // equal, but wrongly linked
	group(in(dst, "b"))
	group(in(dst, "d", "f"))
	copyTree(t, Options{Source: src.dir, Target: dst.dir})
	requireEqualTrees(t, src.dir, dst.dir)
	for _, n := range "abcd" {
		st, err := os.Stat(filepath.Join(dst.dir, string(n)))
		must(t, err)
		if links := st.Sys().(*syscall.Stat_t).Nlink; links != 2 {
			t.Errorf("%c has %d names", n, links)
		}
	}
}

func TestChecksumFindsChangeWithEqualSizeAndTime(t *testing.T) {
	src, dst := newVolume(t, 32), newVolume(t, 32)
	for _, v := range []volume{src, dst} {
		writeFile(t, filepath.Join(v.dir, "f"), v.dir[len(v.dir)-1:]+strings.Repeat("x", 100))
	}
	writeFile(t, filepath.Join(dst.dir, "f"), "y"+strings.Repeat("x", 100))
	setTime(t, filepath.Join(src.dir, "f"), 1e18)
	setTime(t, filepath.Join(dst.dir, "f"), 1e18)
	if r := copyTree(t, Options{Source: src.dir, Target: dst.dir, NoVerify: true}); r.Skipped != 1 {
		t.Errorf("without --checksum the file should count as equal: %+v", r)
	}
	if r := copyTree(t, Options{Source: src.dir, Target: dst.dir, Checksum: true}); r.Files != 1 {
		t.Errorf("with --checksum the file should be copied: %+v", r)
	}
	requireEqualTrees(t, src.dir, dst.dir)
}

// A file system that is mounted below the source does not belong to the volume, but users may believe that it does. The
// copy must not omit it silently.
func TestMountInSourceIsNotFaithful(t *testing.T) {
	src, dst, other := newVolume(t, 32), newVolume(t, 32), newVolume(t, 32)
	writeFile(t, filepath.Join(other.dir, "not ours"), "x")
	mnt := filepath.Join(src.dir, "mnt")
	must(t, os.Mkdir(mnt, 0o755))
	runCommand(t, "mount", "--bind", other.dir, mnt)
	defer unmount(t, mnt)
	writeFile(t, filepath.Join(src.dir, "file"), "x")
	runCommand(t, "mount", "--bind", filepath.Join(other.dir, "not ours"), filepath.Join(src.dir, "file"))
	defer unmount(t, filepath.Join(src.dir, "file"))
	for _, pass := range []tree.Pass{tree.PassWhole, tree.PassFirst} {
		e := copyFails(t, Options{Source: src.dir, Target: dst.dir, Pass: pass, Token: operation}, moverreport.CodeNotFaithful)
		if e.Count != 2 || !strings.Contains(e.Message, "mounted here") || !strings.Contains(fmt.Sprint(e.Paths), `"mnt"`) {
			t.Errorf("%v: %q", e, e.Paths)
		}
	}
}

func TestMountInTargetIsRefused(t *testing.T) {
	src, dst, other := newVolume(t, 32), newVolume(t, 32), newVolume(t, 32)
	writeFile(t, filepath.Join(other.dir, "not ours"), "x")
	for _, v := range []volume{src, dst} {
		must(t, os.Mkdir(filepath.Join(v.dir, "mnt"), 0o755))
	}
	must(t, os.Mkdir(filepath.Join(src.dir, "mnt", "sub"), 0o755))
	writeFile(t, filepath.Join(src.dir, "mnt", "sub", "f"), "x")
	must(t, os.Link(filepath.Join(src.dir, "mnt", "sub", "f"), filepath.Join(src.dir, "f")))
	must(t, os.Link(filepath.Join(src.dir, "mnt", "sub", "f"), filepath.Join(src.dir, "z")))
	mnt := filepath.Join(dst.dir, "mnt")
	runCommand(t, "mount", "--bind", other.dir, mnt)
	defer unmount(t, mnt)
	if e := copyFails(t, Options{Source: src.dir, Target: dst.dir}, moverreport.CodeNotFaithful); !strings.Contains(e.Message, `"mnt"`) {
		t.Error(e)
	}
	if _, err := os.Stat(filepath.Join(other.dir, "sub")); err == nil {
		t.Error("the copy wrote into another file system")
	}
	must(t, os.RemoveAll(filepath.Join(src.dir, "mnt"))) // now the copy would delete it in the target
	_, err := Copy(context.Background(), Options{Source: src.dir, Target: dst.dir})
	if err == nil {
		t.Error("the copy deleted a mount point")
	}
	if _, err := os.Stat(filepath.Join(other.dir, "not ours")); err != nil {
		t.Error(err)
	}
}
