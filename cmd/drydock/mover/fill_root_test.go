//go:build linux && root

package mover

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/target"
	"drydock.dev/cmd/drydock/mover/tree"
	"drydock.dev/shared/moverreport"
)

// settledTree makes a tree, and records all its files and directories by a first pass.
func settledTree(t *testing.T) (src, dst volume) {
	t.Helper()
	src, dst = newVolume(t, 64), newVolume(t, 64)
	for _, dir := range []string{"a", "b", "a/sub", "b/sub", "c"} {
		must(t, os.Mkdir(filepath.Join(src.dir, dir), 0o755))
		for i := range 3 {
			writeFile(t, filepath.Join(src.dir, dir, fmt.Sprint("f", i)), dir+strings.Repeat("x", i))
		}
	}
	waitSettled()
	if r := runFirstPass(t, firstPass(src.dir, dst.dir)); r.RecordedFiles != 15 {
		t.Fatalf("%+v", r)
	}
	return src, dst
}

// One side differs from the record. Both kinds of passes see it, and repair the target.
func TestDifferenceFromRecordIsRepaired(t *testing.T) {
	for name, change := range map[string]func(src, dst string) error{
		"directories of the source are exchanged": func(src, dst string) error {
			return errors.Join(os.Rename(src+"/a", src+"/t"), os.Rename(src+"/b", src+"/a"), os.Rename(src+"/t", src+"/b"))
		},
		"subdirectories are exchanged": func(src, dst string) error {
			return errors.Join(os.Rename(src+"/a/sub", src+"/t"), os.Rename(src+"/b/sub", src+"/a/sub"), os.Rename(src+"/t", src+"/b/sub"))
		},
		"a directory is moved": func(src, dst string) error { return os.Rename(src+"/a/sub", src+"/c/sub") },
		"a file is gone":       func(src, dst string) error { return os.Remove(dst + "/a/f1") },
		"a directory is gone":  func(src, dst string) error { return os.RemoveAll(dst + "/a/sub") },
		"a tree is gone":       func(src, dst string) error { return os.RemoveAll(dst + "/a") },
		"a file is new":        func(src, dst string) error { return os.WriteFile(dst+"/a/sub/new", nil, 0o600) },
		"a directory is new":   func(src, dst string) error { return os.Mkdir(dst+"/a/sub/new", 0o700) },
		"a temporary file is left": func(src, dst string) error {
			return os.WriteFile(dst+"/a/"+target.TempPrefix+"1", []byte("torn"), 0o600)
		},
		"a file is a directory": func(src, dst string) error {
			return errors.Join(os.Remove(dst+"/a/f1"), os.Mkdir(dst+"/a/f1", 0o755))
		},
		"a directory is a file": func(src, dst string) error {
			return errors.Join(os.RemoveAll(dst+"/a/sub"), os.WriteFile(dst+"/a/sub", nil, 0o644))
		},
		"a directory is a link": func(src, dst string) error {
			return errors.Join(os.RemoveAll(dst+"/a/sub"), os.Symlink("../b/sub", dst+"/a/sub"))
		},
		"a file is another inode with equal attributes": func(src, dst string) error {
			st, err := os.Stat(dst + "/a/f1")
			return errors.Join(err, os.WriteFile(dst+"/t", []byte("bx"), 0o644), os.Chtimes(dst+"/t", st.ModTime(), st.ModTime()),
				os.Rename(dst+"/t", dst+"/a/f1"))
		},
		"a file is written to, and its time is set back": func(src, dst string) error {
			st, err := os.Stat(dst + "/a/f1")
			return errors.Join(err, os.WriteFile(dst+"/a/f1", []byte("!x"), 0o644), os.Chtimes(dst+"/a/f1", st.ModTime(), st.ModTime()))
		},
		"a file has an attribute":      func(src, dst string) error { return unix.Setxattr(dst+"/a/f1", "user.x", []byte("1"), 0) },
		"a file has another mode":      func(src, dst string) error { return os.Chmod(dst+"/a/f1", 0o600) },
		"a file has another name":      func(src, dst string) error { return os.Link(dst+"/a/f1", dst+"/c/link") },
		"a directory has another mode": func(src, dst string) error { return os.Chmod(dst+"/a/sub", 0o700) },
		"a directory has another time": func(src, dst string) error { return os.Chtimes(dst+"/a/sub", time.Now(), time.Now()) },
		"a directory has an attribute": func(src, dst string) error { return unix.Setxattr(dst+"/a/sub", "user.x", []byte("1"), 0) },
	} {
		for _, again := range []bool{false, true} {
			t.Run(fmt.Sprint(name, again), func(t *testing.T) {
				src, dst := settledTree(t)
				must(t, change(src.dir, dst.dir))
				if again {
					runFirstPass(t, firstPass(src.dir, dst.dir))
				}
				copyTree(t, finalPass(src.dir, dst.dir))
				requireEqualTrees(t, src.dir, dst.dir)
				requireNoTemps(t, dst.dir)
			})
		}
	}
}

// Also without verification, a pass looks at the target of each recorded file.
func TestUnverifiedFinalPassLooksAtTarget(t *testing.T) {
	for name, change := range map[string]func(src, dst string) error{
		"directories of the source are exchanged": func(src, dst string) error {
			return errors.Join(os.Rename(src+"/a", src+"/t"), os.Rename(src+"/b", src+"/a"), os.Rename(src+"/t", src+"/b"))
		},
		"a file of the target is gone": func(src, dst string) error { return os.Remove(dst + "/a/f1") },
	} {
		t.Run(name, func(t *testing.T) {
			src, dst := settledTree(t)
			must(t, change(src.dir, dst.dir))
			o := finalPass(src.dir, dst.dir)
			o.NoVerify = true
			if r := copyTree(t, o); r.Files == 0 || r.Skipped < 3 {
				t.Errorf("%+v", r)
			}
			requireEqualTrees(t, src.dir, dst.dir)
		})
	}
}

// Neither pass touches unchanged directories of the target.
func TestUnchangedDirectoriesAreNotWritten(t *testing.T) {
	src, dst := settledTree(t)
	changeTimeOf := func(path string) (ctime unix.Timespec) {
		var st unix.Stat_t
		must(t, unix.Stat(filepath.Join(dst.dir, path), &st))
		return st.Ctim
	}
	must(t, rewrite(src.dir+"/b/f1"))
	same, other := changeTimeOf("a/sub"), changeTimeOf("b")
	r := copyTree(t, finalPass(src.dir, dst.dir))
	if r.Files != 1 || r.TrustedFiles != 14 || changeTimeOf("a/sub") != same || changeTimeOf("b") == other {
		t.Errorf("%+v", r)
	}
	requireEqualTrees(t, src.dir, dst.dir)
}

// A recorded file that changes during the final pass fails it, unless nothing had changed in the source for a moment. Then
// the copy is of the moment when the scan began.
func TestRecordedFileThatChangesDuringFinalPass(t *testing.T) {
	for _, recent := range []bool{true, false} {
		src, dst := settledTree(t)
		if recent {
			writeFile(t, src.dir+"/new", "x")
		} else {
			time.Sleep(2 * stampResolution)
		}
		o := finalPass(src.dir, dst.dir)
		before, err := os.ReadFile(src.dir + "/a/f1")
		must(t, err)
		o.hooks.synced = func() { must(t, rewriteAs(src.dir+"/a/f1", "later")) }
		if recent {
			copyFails(t, o, moverreport.CodeSourceChanged)
			continue
		}
		o.hooks.synced = func() { must(t, rewriteAs(src.dir+"/a/f1", "later")) }
		c, err := newCopier(o)
		must(t, err)
		err = c.run(t.Context(), o)
		c.close()
		must(t, err)
		if after, err := os.ReadFile(dst.dir + "/a/f1"); err != nil || string(after) != string(before) {
			t.Errorf("%q %v", after, err)
		}
	}
}

// rewriteAs changes the contents of a file in place.
func rewriteAs(path, contents string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(contents)
	return errors.Join(err, f.Close())
}

// A new name in a directory is seen, whatever the record says of its files.
func TestSourceDirectoryThatChangesDuringFinalPassFails(t *testing.T) {
	src, dst := settledTree(t)
	time.Sleep(2 * stampResolution)
	o := finalPass(src.dir, dst.dir)
	o.hooks.synced = func() { writeFile(t, src.dir+"/a/sub/new", "x") }
	copyFails(t, o, moverreport.CodeSourceChanged)
}

// The mover owns a directory whose mode does not allow writing. The first pass has set this mode, and the final pass writes
// into the directory nevertheless.
func TestUserWritesIntoReadOnlyDirectory(t *testing.T) {
	src, dst := volumes(t)
	locked := src.dir + "/data/locked"
	must(t, os.Mkdir(locked, 0o755))
	for i := range 3 {
		writeFile(t, fmt.Sprint(locked, "/f", i), "x")
		must(t, os.Chown(fmt.Sprint(locked, "/f", i), user, user))
	}
	must(t, errors.Join(os.Chown(locked, user, user), os.Chmod(locked, 0o500)))
	waitSettled()
	for range 2 {
		if r := (child{Source: src.dir, Target: dst.dir, Pass: tree.PassFirst}).run(t, user); r.Code != moverreport.CodeOK {
			t.Fatalf("%+v", r)
		}
	}
	must(t, rewriteAs(locked+"/f1", "other"))
	r := (child{Source: src.dir, Target: dst.dir, Pass: tree.PassFinal}).run(t, user)
	if r.Code != moverreport.CodeOK || r.Files != 1 || r.TrustedFiles == 0 {
		t.Fatalf("%+v", r)
	}
	requireEqualTrees(t, src.dir+"/data", dst.dir+"/data")
}
