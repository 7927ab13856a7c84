//go:build linux

package mover

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"drydock.dev/cmd/drydock/mover/fault"
	"drydock.dev/cmd/drydock/mover/fsys"
	"drydock.dev/cmd/drydock/mover/progress"
	"drydock.dev/cmd/drydock/mover/tree"
	"drydock.dev/shared/moverreport"
)

// TestScanWithoutOpenat2: an old kernel or a strict seccomp filter has no openat2. The scan then opens a deep path one
// name at a time.
func TestScanWithoutOpenat2(t *testing.T) {
	src := t.TempDir()
	makeDeepTree(t, src, 30, strings.Repeat("d", 200))
	r, err := fsys.OpenRoot(src, fault.Source)
	must(t, err)
	defer r.Close()
	r.NoOpenat2.Store(true)
	tree, err := tree.Scan(context.Background(), r, 2, progress.NewMeter(nil, 0), &fault.Problems{})
	must(t, err)
	if last := tree.Dirs[len(tree.Dirs)-1]; len(tree.Dirs) != 31 || last.Count() != 3 {
		t.Fatalf("%d directories, %d entries in the last", len(tree.Dirs), last.Count())
	}
}

// TestRootsMustBeSeparate: wrong arguments are refused before anything is deleted. A copy into a folder that contains the
// source would delete the source.
func TestRootsMustBeSeparate(t *testing.T) {
	base := t.TempDir()
	sub := filepath.Join(base, "sub")
	must(t, os.Mkdir(sub, 0o755))
	writeFile(t, filepath.Join(sub, "f"), "x")
	writeFile(t, filepath.Join(base, "g"), "x")
	for name, o := range map[string]Options{
		"the same":             {Source: base, Target: base},
		"target in source":     {Source: base, Target: sub},
		"source in target":     {Source: sub, Target: base},
		"source missing":       {Source: filepath.Join(base, "no"), Target: sub},
		"target is a file":     {Source: sub, Target: filepath.Join(base, "g")},
		"target not mentioned": {Source: sub},
	} {
		t.Run(name, func(t *testing.T) { copyFails(t, o, moverreport.CodeUsage) })
	}
	for _, f := range []string{"g", "sub/f"} {
		if _, err := os.Stat(filepath.Join(base, f)); err != nil {
			t.Error(err)
		}
	}
}

// TestInterruptionIsClean: a signal in the middle of a copy ends it with the signal's exit code and leaves no temporary
// files. The next copy into the same target succeeds.
func TestInterruptionIsClean(t *testing.T) {
	src, dst := t.TempDir(), t.TempDir()
	for _, n := range []string{"a", "b", "c", "d"} {
		writeFile(t, filepath.Join(src, n), strings.Repeat(n, 3<<20))
	}
	for sig, code := range map[syscall.Signal]int{syscall.SIGINT: moverreport.CodeInterrupted, syscall.SIGTERM: moverreport.CodeTerminated} {
		ctx, cancel := context.WithCancelCause(context.Background())
		o := Options{Source: src, Target: dst, Workers: 2}
		o.hooks.wrote = func(string, int64) { cancel(&fault.Interruption{Signal: sig}) }
		_, err := Copy(ctx, o)
		e := new(fault.Error)
		if !errors.As(err, &e) || e.Code != code || e.Reason != moverreport.ReasonInterrupted {
			t.Errorf("%v: %v", sig, err)
		}
		requireNoTemps(t, dst)
	}
	copyTree(t, Options{Source: src, Target: dst})
}
