//go:build linux && root

package mover

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"drydock.dev/shared/moverreport"
)

func TestMarginFailsBeforeCopy(t *testing.T) {
	src, dst := newVolume(t, 128), newVolume(t, 64)
	write(t, filepath.Join(src.dir, "f"), strings.Repeat("x", 40<<20))
	write(t, filepath.Join(dst.dir, "kept"), "x")
	for _, pass := range []Pass{PassWhole, PassFirst} {
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
	write(t, filepath.Join(src.dir, "f"), strings.Repeat("x", 10<<20))
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
	write(t, filepath.Join(src.dir, "outside"), strings.Repeat("x", 60<<20))
	write(t, filepath.Join(src.dir, "sub", "f"), "x")
	copyTree(t, Options{Source: filepath.Join(src.dir, "sub"), Target: dst.dir, Margin: 50})

	shared, small := newVolume(t, 400, "mkfs.xfs", "-q"), newVolume(t, 200)
	write(t, filepath.Join(shared.dir, "f"), strings.Repeat("x", 100<<20))
	runCommand(t, "cp", "--reflink=always", filepath.Join(shared.dir, "f"), filepath.Join(shared.dir, "g"))
	runCommand(t, "sync", "-f", shared.dir)
	e := copyFails(t, Options{Source: shared.dir, Target: small.dir, Margin: 10}, moverreport.CodeNoSpace)
	if strings.Contains(e.Message, "with a margin") {
		t.Logf("found before the copy: %v", e)
	}
}
