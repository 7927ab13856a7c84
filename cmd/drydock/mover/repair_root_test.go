//go:build linux && root

package mover

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/units"
	"drydock.dev/shared/moverreport"
	"drydock.dev/test/seed"
)

// writeKeepingTime writes to a file and sets its time back.
func writeKeepingTime(path, text string, off int64) error {
	return keepTime(path, func() error {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.WriteAt([]byte(text), off)
		return err
	})
}

// Another process writes to the target after the patch, in a unit that the patch did not write. Only the change time shows it. The kept
// hashes do not count any more, and the verification reads the whole file.
func TestTargetChangedAfterPatchIsMismatch(t *testing.T) {
	src, dst := newVolume(t, 64), newVolume(t, 64)
	r := seed.Random(t)
	writeRandomFile(t, r, src.dir+"/db", 8<<20)
	last := runFirstPass(t, hotPass(src.dir, dst.dir))
	changeBytes(t, r, src.dir+"/db", 1)
	o := finalPass(src.dir, dst.dir)
	o.Last = last
	o.hooks.synced = func() { must(t, writeKeepingTime(dst.dir+"/db", "foreign", 5<<20)) }
	copyFails(t, o, moverreport.CodeMismatch)
	o.hooks.synced = nil
	copyTree(t, o)
	requireEqualTrees(t, src.dir, dst.dir)
}

// changedDuringVerification runs a final pass while another process writes to the target, behind the place that the verification reads.
func changedDuringVerification(t *testing.T, src, dst volume) {
	t.Helper()
	writeRandomFile(t, seed.Random(t), src.dir+"/db", 8<<20)
	o := finalPass(src.dir, dst.dir)
	o.Limit = NewLimiter(8 << 20) // the verification takes two seconds
	done := make(chan error, 1)
	o.hooks.synced = func() {
		go func() {
			time.Sleep(time.Second)
			done <- writeKeepingTime(dst.dir+"/db", "foreign", 0)
		}()
	}
	copyFails(t, o, moverreport.CodeMismatch)
	must(t, <-done)
}

func TestTargetChangedDuringVerificationIsMismatch(t *testing.T) {
	changedDuringVerification(t, newVolume(t, 64), newVolume(t, 64))
}

// The next run must copy a file again that failed with Mismatch: "a retry copies these files again" (CodeMismatch). Its contents are wrong,
// and its attributes are right.
func TestRetryRepairsTargetThatChangedDuringVerification(t *testing.T) {
	src, dst := newVolume(t, 64), newVolume(t, 64)
	changedDuringVerification(t, src, dst)
	copyTree(t, finalPass(src.dir, dst.dir))
	requireEqualTrees(t, src.dir, dst.dir)
}

// A block goes bad on a target that knows it: btrfs has checksums, so reading fails. The retry writes the file again, and a new file gets
// other blocks.
func TestRetryReplacesUnreadableFile(t *testing.T) {
	for name, size := range map[string]int{"small": 200_000, "big": 3 << 20} {
		for _, pass := range []Pass{PassWhole, PassFirst, PassFinal} {
			t.Run(fmt.Sprintf("%s, pass %d", name, pass), func(t *testing.T) {
				src, dst := newVolume(t, 64), newVolume(t, 400, "mkfs.btrfs", "-q", "-f")
				mark := []byte("the only place where these words stand")
				must(t, os.WriteFile(src.dir+"/bad", append(bytes.Repeat([]byte("."), size), mark...), 0o644))
				waitSettled()
				o := firstPass(src.dir, dst.dir)
				o.Pass = pass
				o.hooks.synced = func() { corruptOnDevice(t, dst.image, mark) }
				copyFails(t, o, moverreport.CodeIO)
				o.hooks.synced = nil
				_, err := Copy(context.Background(), o)
				must(t, err)
				requireEqualTrees(t, src.dir, dst.dir)
			})
		}
	}
}

// A patch reads such a block. The file is copied anew at once.
func TestPatchReplacesUnreadableFile(t *testing.T) {
	src, dst := newVolume(t, 64), newVolume(t, 400, "mkfs.btrfs", "-q", "-f")
	mark := []byte("the only place where these words stand")
	must(t, os.WriteFile(src.dir+"/bad", append(bytes.Repeat([]byte("."), 3<<20), mark...), 0o644))
	waitSettled()
	runFirstPass(t, firstPass(src.dir, dst.dir))
	corruptOnDevice(t, dst.image, mark)
	writeInPlace(t, src.dir+"/bad", []byte("changed"), 0)
	dropCaches(t)
	_, err := Copy(context.Background(), finalPass(src.dir, dst.dir))
	must(t, err)
	requireEqualTrees(t, src.dir, dst.dir)
}

// A target that cannot have holes: ramfs has no fallocate. Where the source gets a hole, zeros are written.
func TestTargetWithoutHolesGetsZeros(t *testing.T) {
	needRoot(t)
	src, dst := newVolume(t, 64), t.TempDir()
	runCommand(t, "mount", "-t", "ramfs", "ramfs", dst)
	t.Cleanup(func() { unmount(t, dst) })
	r := seed.Random(t)
	writeRandomFile(t, r, src.dir+"/db", 16<<20)
	runFirstPass(t, firstPass(src.dir, dst))
	before := inodeOf(t, dst+"/db")
	must(t, fallocate(src.dir+"/db", unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 5*units.Size-4096, 9<<20))
	copyTree(t, finalPass(src.dir, dst))
	requireEqualTrees(t, src.dir, dst)
	if inodeOf(t, dst+"/db") != before {
		t.Error("the file was copied, not patched")
	}
}
