//go:build linux && root

package mover

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"drydock.dev/cmd/drydock/mover/fsys"
)

// The clock is set back between two passes, on a file system whose times have whole seconds. A job that runs at a fixed time of the day
// runs in the same second again, and writes other contents of the same size. The inode then looks as it was recorded. A step during a pass
// voids its record, and so must a step after it.
//
// The test cannot set the clock of its machine. It replaces the mover's reading of it, and writes the stamp that the kernel would write.
func TestStepOfClockBetweenPassesVoidsRecord(t *testing.T) {
	small := []string{"mkfs.ext4", "-q", "-F", "-I", "128"}
	src, dst := newVolume(t, 64, small...), newVolume(t, 64)
	writeFile(t, src.dir+"/report", "of the first run")
	setTime(t, src.dir+"/report", time.Now().Truncate(time.Second).UnixNano())
	time.Sleep(2200 * time.Millisecond)
	o := firstPass(src.dir, dst.dir)
	o.Settled = 1100 * time.Millisecond
	o.Mount = "the pod"
	o.hooks.clockOffset = func() time.Duration { return 0 }
	last := runFirstPass(t, o)
	if last.RecordedFiles != 1 {
		t.Fatalf("%+v", last)
	}
	before := metaOfFile(t, src.dir+"/report")

	// The clock is set back by an hour, the hour passes, and the job runs again.
	writeFile(t, src.dir+"/report", "of the other run")
	setTime(t, src.dir+"/report", before.MtimeSec*int64(time.Second))
	unmount(t, src.dir)
	stamp := time.Unix(before.CtimeSec, 0).UTC().Format("20060102150405")
	runCommand(t, "debugfs", "-w", "-R", fmt.Sprintf("set_inode_field report ctime %s", stamp), src.image)
	runCommand(t, "mount", "-o", "loop", src.image, src.dir)
	if now := metaOfFile(t, src.dir+"/report"); !sameBesidesDevice(now, before) {
		t.Fatalf("the stamp was not written: %+v, not %+v", now, before)
	}

	o.Pass = PassFinal
	o.hooks.clockOffset = func() time.Duration { return -time.Hour }
	r, err := Copy(context.Background(), o)
	have, rerr := os.ReadFile(dst.dir + "/report")
	must(t, rerr)
	if err == nil && r.Verified && !bytes.Equal(have, []byte("of the other run")) {
		t.Errorf("the copy counts as verified, and the target has %q", have)
	}
}

func sameBesidesDevice(a, b fsys.Meta) bool {
	a.Dev, b.Dev = 0, 0
	return a == b
}
