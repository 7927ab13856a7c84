//go:build linux

package mover

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// killed runs a child that kills itself, or is killed after a time. It reports whether it was killed.
func killed(t *testing.T, c child, after time.Duration) bool {
	t.Helper()
	cmd, out := c.command(t, 0)
	must(t, cmd.Start())
	if after > 0 {
		timer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
		defer timer.Stop()
	}
	err := cmd.Wait()
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if err != nil && !status.Signaled() {
		t.Fatalf("%v: %s", err, out)
	}
	return status.Signaled()
}

// Files that were copied before the kill are not copied again.
func TestResumeSkipsCopiedFiles(t *testing.T) {
	src, dst := t.TempDir(), t.TempDir()
	for i := range 20 {
		writeFile(t, filepath.Join(src, fmt.Sprintf("f%02d", i)), strings.Repeat("x", 1000))
	}
	if !killed(t, child{Source: src, Target: dst, KillAtFile: 15}, 0) {
		t.Fatal("the child was not killed")
	}
	done, err := filepath.Glob(filepath.Join(dst, "f*"))
	must(t, err)
	r := copyTree(t, Options{Source: src, Target: dst})
	// the target was empty, so each of the three workers may have left a torn file
	if torn := int64(len(done)) - r.Skipped; torn < 0 || torn > 3 || len(done) == 0 || r.Files+r.Skipped != 20 {
		t.Errorf("%d files existed, %+v", len(done), r)
	}
	requireNoTemps(t, dst)
}
