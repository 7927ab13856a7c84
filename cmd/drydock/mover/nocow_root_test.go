//go:build linux && root

package mover

import (
	"bytes"
	"context"
	"os"
	"testing"
)

// TestHotFileWithUnsupportedFlagIsPatched: databases on btrfs have files without copy on write (chattr +C). ext4 and xfs do not know this
// flag, which is a warning. A later pass still has to write only the blocks that differ.
func TestHotFileWithUnsupportedFlagIsPatched(t *testing.T) {
	for name, mkfs := range map[string][]string{"ext4": {"mkfs.ext4", "-q", "-F"}, "xfs": {"mkfs.xfs", "-q", "-f"}} {
		t.Run(name, func(t *testing.T) {
			src, dst := newVolume(t, 400, "mkfs.btrfs", "-q", "-f"), newVolume(t, 400, mkfs...)
			must(t, os.Mkdir(src.dir+"/pgdata", 0o755))
			runCommand(t, "chattr", "+C", src.dir+"/pgdata")
			must(t, os.WriteFile(src.dir+"/pgdata/table", bytes.Repeat([]byte("0123456789abcdef"), 1<<20), 0o600)) // 16 MiB
			o := Options{Source: src.dir, Target: dst.dir, Workers: 2, Pass: PassFirst, Token: operation, Settled: settled, OwnOnly: true}
			first, err := Copy(context.Background(), o)
			must(t, err)
			t.Log(first.Warnings)
			f, err := os.OpenFile(src.dir+"/pgdata/table", os.O_WRONLY, 0)
			must(t, err)
			_, err = f.WriteAt([]byte("changed"), 5<<20)
			must(t, err)
			must(t, f.Close())
			o.Pass, o.Last = PassFinal, first
			r, err := Copy(context.Background(), o)
			must(t, err)
			if r.Bytes > 1<<20 {
				t.Errorf("7 bytes have changed, and the final pass has written %d bytes", r.Bytes)
			}
		})
	}
}

// TestHotFileWithUnsupportedFlagNeedsRoomOnce: the file fits into the target once. The next pass must not need room for a second copy.
func TestHotFileWithUnsupportedFlagNeedsRoomOnce(t *testing.T) {
	src, dst := newVolume(t, 200, "mkfs.btrfs", "-q", "-f"), newVolume(t, 64)
	must(t, os.Mkdir(src.dir+"/pgdata", 0o755))
	runCommand(t, "chattr", "+C", src.dir+"/pgdata")
	must(t, os.WriteFile(src.dir+"/pgdata/table", bytes.Repeat([]byte("0123456789abcdef"), 36<<16), 0o600)) // 36 MiB
	o := Options{Source: src.dir, Target: dst.dir, Workers: 2, Pass: PassFirst, Token: operation, Settled: settled, OwnOnly: true}
	first, err := Copy(context.Background(), o)
	must(t, err)
	f, err := os.OpenFile(src.dir+"/pgdata/table", os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteAt([]byte("changed"), 5<<20)
	must(t, err)
	must(t, f.Close())
	o.Last = first
	if _, err := Copy(context.Background(), o); err != nil {
		t.Errorf("the second pass: %v", err)
	}
}
