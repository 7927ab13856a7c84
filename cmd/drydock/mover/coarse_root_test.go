//go:build linux && root

package mover

import (
	"context"
	"os"
	"testing"
	"time"

	"drydock.dev/cmd/drydock/mover/units"
	"drydock.dev/test/seed"
)

// Small inodes show only seconds, so a patch that is cancelled in the second of the last pass may leave no trace.
// The kept hashes must not count any more: the source may have its former contents again.
func TestCancelledPatchInSameSecondEndsKeptHashes(t *testing.T) {
	mkfs := []string{"mkfs.ext4", "-q", "-F", "-I", "128"}
	src, dst := newVolume(t, 64, mkfs...), newVolume(t, 64, mkfs...)
	r := seed.Random(t)
	const at = 5 * units.Size
	contents := writeRandomFile(t, r, src.dir+"/db", 2<<20)
	put := func(b byte, mtime time.Time) {
		f, err := os.OpenFile(src.dir+"/db", os.O_RDWR, 0)
		must(t, err)
		_, err = f.WriteAt([]byte{b}, at)
		must(t, err)
		must(t, f.Close())
		must(t, os.Chtimes(src.dir+"/db", mtime, mtime))
	}
	for range 3 { // a try may take longer than a second
		time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(1020 * time.Millisecond)))
		second := time.Now().Truncate(time.Second)
		put(contents[at], second.Add(-time.Second))
		last := runFirstPass(t, hotPass(src.dir, dst.dir))

		put(contents[at]+1, second)
		ctx, cancel := context.WithCancel(context.Background())
		o := hotPass(src.dir, dst.dir)
		o.Last = last
		o.hooks.wrote = func(string, int64) { cancel() }
		if _, err := Copy(ctx, o); err == nil {
			t.Fatal("the pass was not cancelled")
		}
		inTime := time.Since(second) < time.Second

		put(contents[at], second)
		o = finalPass(src.dir, dst.dir)
		o.Last = last
		copyTree(t, o)
		requireEqualTrees(t, src.dir, dst.dir)
		if inTime {
			return
		}
	}
	t.Error("the passes took longer than a second")
}
