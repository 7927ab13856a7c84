//go:build linux && root

package mover

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/target"
	"drydock.dev/cmd/drydock/mover/tree"
	"drydock.dev/shared/moverreport"
)

func TestForeignTargetIsRefusedUnchanged(t *testing.T) {
	for name, fill := range map[string]func(t *testing.T, dir string){
		"a file":          func(t *testing.T, dir string) { writeFile(t, dir+"/ledger", "x") },
		"a directory":     func(t *testing.T, dir string) { must(t, os.Mkdir(dir+"/archive", 0o755)) },
		"the same name":   func(t *testing.T, dir string) { writeFile(t, dir+"/f", "other contents") },
		"a hidden file":   func(t *testing.T, dir string) { writeFile(t, dir+"/.hidden", "x") },
		"recovered files": func(t *testing.T, dir string) { writeFile(t, dir+"/"+tree.LostFound+"/#12", "x") },
		"a file of another operation": func(t *testing.T, dir string) {
			writeFile(t, dir+"/"+target.MarkerName, target.MarkerMagic+"op-0\n")
			writeFile(t, dir+"/ledger", "x")
		},
		"a torn marker": func(t *testing.T, dir string) {
			writeFile(t, dir+"/"+target.MarkerName, "")
			writeFile(t, dir+"/ledger", "x")
		},
		"a marker that only begins like this operation's": func(t *testing.T, dir string) {
			writeFile(t, dir+"/"+target.MarkerName, target.MarkerMagic+operation+"23\n")
			writeFile(t, dir+"/ledger", "x")
		},
	} {
		t.Run(name, func(t *testing.T) {
			src, dst := newVolume(t, 16), newVolume(t, 16)
			writeFile(t, src.dir+"/f", "contents")
			fill(t, dst.dir)
			before := runCommand(t, "find", dst.dir, "-printf", "%p %s %T@ %C@\n")
			for pass, o := range passes(src.dir, dst.dir) {
				e := copyFails(t, o, moverreport.CodeTargetNotEmpty)
				if e.Reason != moverreport.ReasonTargetNotEmpty || e.Count != 1 || !strings.Contains(e.Message, "Nothing was changed") {
					t.Errorf("%s: %+v", pass, e)
				}
			}
			if after := runCommand(t, "find", dst.dir, "-printf", "%p %s %T@ %C@\n"); after != before {
				t.Errorf("the target changed from\n%s to\n%s", before, after)
			}
		})
	}
}

func TestEmptyTargetIsAccepted(t *testing.T) {
	for name, fill := range map[string]func(t *testing.T, dir string){
		"nothing at all":            func(t *testing.T, dir string) { must(t, os.Remove(dir+"/"+tree.LostFound)) },
		"the result of mkfs":        func(*testing.T, string) {},
		"with the platform's group": func(t *testing.T, dir string) { must(t, unix.Chmod(dir+"/"+tree.LostFound, 0o2770)) },
		"a torn marker":             func(t *testing.T, dir string) { writeFile(t, dir+"/"+target.MarkerName, target.MarkerMagic) },
		"the marker of another operation": func(t *testing.T, dir string) {
			writeFile(t, dir+"/"+target.MarkerName, target.MarkerMagic+"op-0\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			src := newVolume(t, 16)
			writeFile(t, src.dir+"/f", "contents")
			for pass := range passes("", "") {
				dst := newVolume(t, 16)
				fill(t, dst.dir)
				o := passes(src.dir, dst.dir)[pass]
				if o.Pass == tree.PassFirst {
					runFirstPass(t, o)
					if b, err := os.ReadFile(dst.dir + "/" + target.MarkerName); err != nil || string(b) != target.MarkerMagic+operation+"\n" {
						t.Fatalf("%q %v", b, err)
					}
					o = passes(src.dir, dst.dir)["final"]
				}
				copyTree(t, o)
				requireEqualTrees(t, src.dir, dst.dir)
				requireNoTemps(t, dst.dir)
			}
		})
	}
}

// The marker exists before the first byte of data, so a killed pass can resume. That includes the first one.
func TestKilledPassResumesInMarkedTarget(t *testing.T) {
	src, dst := newVolume(t, 32), newVolume(t, 32)
	for _, n := range []string{"a", "b", "c", "d", "e"} {
		writeFile(t, src.dir+"/"+n, strings.Repeat(n, 300_000))
	}
	for _, c := range []child{
		{Pass: tree.PassFirst, KillAfter: 1}, {Pass: tree.PassFirst, KillAtFile: 3}, {Pass: tree.PassFirst, KillAtRecord: true},
		{Pass: tree.PassFinal, KillAtFile: 1}, {Pass: tree.PassWhole, KillAtFile: 1},
	} {
		c.Source, c.Target, c.OwnOnly = src.dir, dst.dir, true
		for _, n := range []string{"a", "b", "c", "d", "e"} {
			writeFile(t, src.dir+"/"+n, strings.Repeat(n, 300_001))
		}
		waitSettled()
		if !killed(t, c, 0) {
			t.Fatalf("the child was not killed: %+v", c)
		}
	}
	copyTree(t, passes(src.dir, dst.dir)["final"])
	requireEqualTrees(t, src.dir, dst.dir)
	requireNoTemps(t, dst.dir)
}

// A mover may start again although an earlier one completed the copy and removed the marker.
func TestCompleteCopyIsAcceptedWithoutMarker(t *testing.T) {
	src, dst := newVolume(t, 32), newVolume(t, 32)
	allFeatures(t, src.dir)
	must(t, os.RemoveAll(src.dir+"/"+target.TempPrefix+"1"))
	first := copyTree(t, passes(src.dir, dst.dir)["whole"])
	for _, pass := range []string{"final", "whole"} {
		if r := copyTree(t, passes(src.dir, dst.dir)[pass]); r.Files != 0 || r.Deleted != 0 || r.Skipped != first.Files {
			t.Errorf("%s: %+v", pass, r)
		}
		requireEqualTrees(t, src.dir, dst.dir)
	}
	copyFails(t, passes(src.dir, dst.dir)["first"], moverreport.CodeTargetNotEmpty)
	setTime(t, dst.dir+"/a", 7)
	copyFails(t, passes(src.dir, dst.dir)["final"], moverreport.CodeTargetNotEmpty)
}

func TestMarginFailsBeforeCopy(t *testing.T) {
	src, dst := newVolume(t, 128), newVolume(t, 64)
	writeFile(t, filepath.Join(src.dir, "f"), strings.Repeat("x", 40<<20))
	writeFile(t, filepath.Join(dst.dir, "kept"), "x")
	for _, pass := range []tree.Pass{tree.PassWhole, tree.PassFirst} {
		o := Options{Source: src.dir, Target: dst.dir, Margin: 40, Pass: pass, Token: operation}
		e := copyFails(t, o, moverreport.CodeNoSpace)
		if e.Reason != moverreport.ReasonNoSpace || !strings.Contains(e.Message, "the source uses 40 MiB; with a margin of 40%") {
			t.Error(e)
		}
	}
	if _, err := os.Stat(filepath.Join(dst.dir, "kept")); err != nil {
		t.Error("the target was changed before the check: ", err)
	}
	copyTree(t, Options{Source: src.dir, Target: dst.dir, Margin: 10})
}

// The margin is checked again after the copy, because the sum of the files is not exact.
func TestMarginIsCheckedAfterCopy(t *testing.T) {
	src, dst := newVolume(t, 64), newVolume(t, 64)
	writeFile(t, filepath.Join(src.dir, "f"), strings.Repeat("x", 10<<20))
	calls := 0
	o := Options{Source: src.dir, Target: dst.dir, Margin: 20}
	o.hooks.statfs = func(st *unix.Statfs_t) {
		if calls++; calls == 2 {
			st.Bfree, st.Bavail = st.Blocks/10, st.Blocks/10
		}
	}
	if e := copyFails(t, o, moverreport.CodeNoSpace); !strings.Contains(e.Message, "the copy uses") {
		t.Error(e)
	}
}

// The source's file system counts data outside of this tree, and the tree counts shared extents twice. The smaller
// number decides.
func TestMarginUsesSmallerEstimate(t *testing.T) {
	src, dst := newVolume(t, 128), newVolume(t, 32)
	must(t, os.Mkdir(filepath.Join(src.dir, "sub"), 0o755))
	writeFile(t, filepath.Join(src.dir, "outside"), strings.Repeat("x", 60<<20))
	writeFile(t, filepath.Join(src.dir, "sub", "f"), "x")
	copyTree(t, Options{Source: filepath.Join(src.dir, "sub"), Target: dst.dir, Margin: 50})

	shared, small := newVolume(t, 400, "mkfs.xfs", "-q"), newVolume(t, 200)
	writeFile(t, filepath.Join(shared.dir, "f"), strings.Repeat("x", 100<<20))
	runCommand(t, "cp", "--reflink=always", filepath.Join(shared.dir, "f"), filepath.Join(shared.dir, "g"))
	runCommand(t, "sync", "-f", shared.dir)
	e := copyFails(t, Options{Source: shared.dir, Target: small.dir, Margin: 10}, moverreport.CodeNoSpace)
	if strings.Contains(e.Message, "with a margin") {
		t.Logf("found before the copy: %v", e)
	}
}
