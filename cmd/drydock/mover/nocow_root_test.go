//go:build linux && root

package mover

import (
	"bytes"
	"context"
	"os"
	"testing"

	"drydock.dev/cmd/drydock/mover/tree"
)

// changedWithoutCopyOnWrite copies a file without copy on write from btrfs to the target, changes seven bytes of it, and copies it again.
func changedWithoutCopyOnWrite(t *testing.T, target string, blocks int, pass tree.Pass) (Result, error) {
	t.Helper()
	src := newVolume(t, 400, "mkfs.btrfs", "-q", "-f")
	must(t, os.Mkdir(src.dir+"/pgdata", 0o755))
	runCommand(t, "chattr", "+C", src.dir+"/pgdata")
	must(t, os.WriteFile(src.dir+"/pgdata/table", bytes.Repeat([]byte("0123456789abcdef"), blocks), 0o600))
	o := Options{Source: src.dir, Target: target, Workers: 2, Pass: tree.PassFirst, Token: operation, Settled: settled, OwnOnly: true,
		Record: recordOf(target)}
	first, err := Copy(context.Background(), o)
	must(t, err)
	writeInPlace(t, src.dir+"/pgdata/table", []byte("changed"), 5<<20)
	o.Pass, o.Last = pass, first
	return Copy(context.Background(), o)
}

// TestHotFileWithUnsupportedFlagIsPatched: databases on btrfs have files without copy on write (chattr +C). ext4 and xfs do not know this
// flag, which is a warning. A later pass still has to write only the blocks that differ.
func TestHotFileWithUnsupportedFlagIsPatched(t *testing.T) {
	for name, mkfs := range map[string][]string{"ext4": {"mkfs.ext4", "-q", "-F"}, "xfs": {"mkfs.xfs", "-q", "-f"}} {
		t.Run(name, func(t *testing.T) {
			r, err := changedWithoutCopyOnWrite(t, newVolume(t, 400, mkfs...).dir, 1<<20, tree.PassFinal) // 16 MiB
			if err != nil || r.Bytes > 1<<20 {
				t.Errorf("seven bytes have changed, and the final pass has written %d bytes: %v", r.Bytes, err)
			}
		})
	}
}

// TestHotFileWithUnsupportedFlagNeedsRoomOnce: the file fits into the target once. The next pass must not need room for a second copy.
func TestHotFileWithUnsupportedFlagNeedsRoomOnce(t *testing.T) {
	if _, err := changedWithoutCopyOnWrite(t, newVolume(t, 64).dir, 36<<16, tree.PassFirst); err != nil { // 36 MiB
		t.Errorf("the second pass: %v", err)
	}
}
