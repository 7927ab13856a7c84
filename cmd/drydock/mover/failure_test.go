//go:build linux

package mover

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/fault"
	"drydock.dev/cmd/drydock/mover/target"
	"drydock.dev/shared/moverreport"
)

// A project quota answers ENOSPC, a user quota EDQUOT.
func TestQuotaHasItsReason(t *testing.T) {
	for errno, want := range map[error]moverreport.Reason{unix.ENOSPC: moverreport.ReasonNoSpace, unix.EDQUOT: moverreport.ReasonQuota} {
		e := fault.ToError(fault.New(fault.Target, "writing", "f", errno), nil)
		if e.Code != moverreport.CodeNoSpace || e.Reason != want {
			t.Errorf("%v: %+v", errno, e)
		}
	}
}

func firstError(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// Invariants: I1.
func TestSourceChangeFailsCopy(t *testing.T) {
	for name, c := range map[string]struct {
		at   string // the hook
		what func(dir string) error
	}{
		"written to while it is read":            {"copying", func(dir string) error { return os.WriteFile(dir+"/f", []byte("changed"), 0o644) }},
		"changed without a trace in mtime":       {"copying", func(dir string) error { return os.Chmod(dir+"/f", 0o604) }},
		"removed before verification":            {"synced", func(dir string) error { return os.Remove(dir + "/f") }},
		"written to before verification":         {"synced", func(dir string) error { return os.WriteFile(dir+"/f", []byte("CONTENTS"), 0o644) }},
		"a new file before verification":         {"synced", func(dir string) error { return os.WriteFile(dir+"/new", nil, 0o644) }},
		"a directory is deleted during the copy": {"copying", func(dir string) error { return os.RemoveAll(dir + "/sub") }},
		"a file becomes a link to another file": {"synced", func(dir string) error {
			return firstError(os.Remove(dir+"/f"), os.Symlink("/etc/passwd", dir+"/f"))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			src, dst := t.TempDir(), t.TempDir()
			writeFile(t, src+"/f", "contents")
			setTime(t, src+"/f", 1e18)
			must(t, os.Mkdir(src+"/sub", 0o755))
			writeFile(t, src+"/sub/g", "contents")
			o := Options{Source: src, Target: dst, Workers: 1}
			done := false
			once := func() {
				if !done {
					done = true
					must(t, c.what(src))
				}
			}
			if c.at == "synced" {
				o.hooks.synced = once
			} else {
				o.hooks.copying = func(string) { once() }
			}
			if e := copyFails(t, o, moverreport.CodeSourceChanged); e.Reason != moverreport.ReasonSourceChanged {
				t.Error(e)
			}
			copyTree(t, Options{Source: src, Target: dst})
			requireEqualTrees(t, src, dst)
		})
	}
}

func TestReadErrorEndsTheCopy(t *testing.T) {
	src, dst := t.TempDir(), t.TempDir()
	writeFile(t, src+"/f", "x")
	o := Options{Source: src, Target: dst}
	o.hooks.source = func(op, path string) error { return unix.EIO }
	if e := copyFails(t, o, moverreport.CodeIO); !strings.Contains(e.Message, `"f" of the source: input/output error`) {
		t.Error(e)
	}
}

// Links in the target, or a link in the source in place of a directory in the target, never lead out of the trees.
// Invariants: I10.
func TestLinksNeverLeadOutOfTrees(t *testing.T) {
	src, dst, outside := t.TempDir(), t.TempDir(), t.TempDir()
	for _, n := range []string{"sub/deeper/f", "f", "other/f"} {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(src, n)), 0o755))
		writeFile(t, filepath.Join(src, n), "data")
	}
	writeFile(t, outside+"/f", "not ours")
	must(t, os.Chmod(outside, 0o750))
	setTime(t, outside, 1e18)
	must(t, os.Symlink(outside, src+"/out")) // in the source, where the target has a directory
	must(t, os.MkdirAll(dst+"/out/x", 0o755))
	must(t, os.Symlink(outside, dst+"/sub")) // in the target, where the source has a directory
	must(t, os.Symlink(outside+"/f", dst+"/f"))
	must(t, os.Mkdir(dst+"/other", 0o755))
	must(t, os.Symlink(outside+"/f", dst+"/other/f"))
	must(t, os.Symlink(outside, dst+"/extra"))
	for i := range 50 { // and at the names of temporary files
		must(t, os.Symlink(outside+"/f", fmt.Sprintf("%s/%s%s", dst, target.TempPrefix, strconv.FormatInt(int64(i), 36))))
	}
	before, err := os.Stat(outside)
	must(t, err)
	copyTree(t, Options{Source: src, Target: dst})
	requireEqualTrees(t, src, dst)
	if got, err := os.ReadFile(outside + "/f"); err != nil || string(got) != "not ours" {
		t.Errorf("%q %v", got, err)
	}
	after, err := os.Stat(outside)
	must(t, err)
	if !after.ModTime().Equal(before.ModTime()) || after.Mode() != before.Mode() {
		t.Error("the directory outside the trees changed")
	}
}
