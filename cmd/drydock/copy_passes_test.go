//go:build linux

package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"drydock.dev/shared/moverreport"
)

// copyOnce runs the command and returns its exit code and report.
func copyOnce(t *testing.T, args ...string) (int, moverreport.Report) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := runCopy(context.Background(), args, &stdout, &stderr)
	return code, lastLine(t, stdout.String())
}

// Both passes run as in a Job. The file is two seconds old, as the minimum of --settled demands.
func TestCopyInTwoPasses(t *testing.T) {
	src, dst := trees(t)
	record := "--record=" + filepath.Join(t.TempDir(), "record")
	time.Sleep(2100 * time.Millisecond)
	code, r := copyOnce(t, "--first-pass", "--token=op", "--settled=2s", record, src, dst)
	if code != moverreport.CodeOK || r.Result != "first-pass" || r.Reason != moverreport.ReasonFirstPassDone || r.Verified {
		t.Fatalf("%d %+v", code, r)
	}
	var want int64 // the number of files that the final pass need not read
	if trustsChangeTimes(t, src) && trustsChangeTimes(t, dst) {
		want = 1
	}
	if r.RecordedFiles != want {
		t.Fatalf("%d files are recorded, want %d: %+v", r.RecordedFiles, want, r)
	}
	code, r = copyOnce(t, "--after-first-pass", "--token=op", record, src, dst)
	if code != moverreport.CodeOK || r.Result != "copied" || r.TrustedFiles != want || (r.TrustedBytes > 0) != (want > 0) || !r.Verified {
		t.Fatalf("%d %+v", code, r)
	}
	if names, err := os.ReadDir(dst); err != nil || len(names) != 1 {
		t.Errorf("%v %v", names, err)
	}
}

// trustsChangeTimes reports whether the mover can trust the change times of the folder's file system. Those of tmpfs and overlay do not
// show every write.
func trustsChangeTimes(t *testing.T, folder string) bool {
	t.Helper()
	var s unix.Statfs_t
	if err := unix.Statfs(folder, &s); err != nil {
		t.Fatal(err)
	}
	return slices.Contains([]int64{unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC}, int64(s.Type))
}

func TestInvalidCopyFlagsAreRejected(t *testing.T) {
	src, dst := trees(t)
	for name, args := range map[string][]string{
		"both passes at once":      {"--first-pass", "--after-first-pass", "--token=op", src, dst},
		"first without a token":    {"--first-pass", src, dst},
		"final without a token":    {"--after-first-pass", src, dst},
		"settled too short":        {"--first-pass", "--token=op", "--settled=1s", src, dst},
		"a margin of 100 percent":  {"--margin=100", src, dst},
		"a negative margin":        {"--margin=-1", src, dst},
		"a margin with a device":   {"--device", "--margin=5", src, dst},
		"own target, no token":     {"--own-target", src, dst},
		"own target of a device":   {"--own-target", "--token=op", "--device", src, dst},
		"a directory for a device": {"--device", src, dst},
	} {
		if code, r := copyOnce(t, args...); code != moverreport.CodeUsage || r.Reason != moverreport.ReasonUsage {
			t.Errorf("%s: %d %+v", name, code, r)
		}
	}
	if code, r := copyOnce(t, "--margin=99", src, dst); code != moverreport.CodeNoSpace || r.Reason != moverreport.ReasonNoSpace {
		t.Errorf("%d %+v", code, r)
	}
}

func TestCopyRefusesForeignTarget(t *testing.T) {
	src, dst := trees(t)
	if err := os.WriteFile(filepath.Join(dst, "ledger"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, pass := range []string{"--first-pass", "--after-first-pass", "--verify"} {
		code, r := copyOnce(t, pass, "--token=op", "--own-target", src, dst)
		if code != moverreport.CodeTargetNotEmpty || r.Reason != moverreport.ReasonTargetNotEmpty || r.Deleted != 0 {
			t.Errorf("%s: %d %+v", pass, code, r)
		}
	}
	if _, err := os.Stat(filepath.Join(dst, "ledger")); err != nil {
		t.Error(err)
	}
}
