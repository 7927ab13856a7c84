//go:build linux && root

package mover

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"drydock.dev/cmd/drydock/mover/tree"
	"drydock.dev/shared/moverreport"
)

// A directory has another name for an instant, while a first pass scans. What the scan could not see is not deleted from the target: that
// would cost the copy of a subtree, and the forecast would not know it. A directory that stays away is deleted by the next pass.
func TestFirstPassKeepsWhatItsScanMissed(t *testing.T) {
	src, dst := newVolume(t, 128), newVolume(t, 128)
	must(t, os.MkdirAll(src.dir+"/p/d", 0o755))
	for i := range 2 * tree.PieceNames {
		writeFile(t, fmt.Sprintf("%s/b%05d", src.dir, i), "") // so that the scan comes to p after several pieces of the root
	}
	for i := range 40 {
		writeFile(t, fmt.Sprintf("%s/p/d/file%02d", src.dir, i), "x")
	}
	waitSettled()
	runFirstPass(t, firstPass(src.dir, dst.dir))
	before := namesIn(t, dst.dir+"/p/d")
	moved, back := false, false
	o := firstPass(src.dir, dst.dir)
	o.Workers, o.ProgressInterval = 1, 200*time.Microsecond
	o.Progress = func(p moverreport.Progress) {
		switch {
		case p.Phase == moverreport.PhaseScan && p.FilesTotal > 0 && !moved:
			must(t, os.Rename(src.dir+"/p", src.dir+"/q"))
			moved = true
		case p.Phase != moverreport.PhaseScan && moved && !back:
			must(t, os.Rename(src.dir+"/q", src.dir+"/p"))
			back = true
		}
	}
	r := runFirstPass(t, o)
	if !moved || !back || r.Changed == 0 {
		t.Fatalf("moved %t, moved back %t: the scan has missed nothing: %+v", moved, back, r)
	}
	if after := namesIn(t, dst.dir+"/p/d"); after != before || r.Deleted > 0 {
		t.Errorf("the pass deleted %d entries, and the target has %q", r.Deleted, after)
	}
	must(t, os.Rename(src.dir+"/p", src.dir+"/q"))
	if runFirstPass(t, firstPass(src.dir, dst.dir)); namesIn(t, dst.dir+"/q/d") != before {
		t.Error("the next pass did not move the directory")
	}
	if _, err := os.Lstat(dst.dir + "/p"); err == nil {
		t.Error("the next pass did not delete the former directory")
	}
}

// A file has two names, and gets a third one between the looks of the scan at the first two, as a database links its files for a
// checkpoint. The scan sees two states of one inode. The first name has the older one, so it counts as changed and nothing is copied. The
// second name has the present one, so it counts as unchanged and must be in the target. A first pass must not blame the target for that:
// a change of the source since the scan is no error.
func TestFirstPassToleratesNewLinkDuringScan(t *testing.T) {
	src, dst := newVolume(t, 128), newVolume(t, 256)
	writeFile(t, src.dir+"/a", "the contents of both names")
	for i := range 2 * tree.PieceNames {
		writeFile(t, fmt.Sprintf("%s/b%05d", src.dir, i), "") // so that several pieces of the directory are scanned one after the other
	}
	must(t, os.Link(src.dir+"/a", src.dir+"/z"))
	waitSettled()
	for try := range 10 {
		to := fmt.Sprintf("%s/%d", dst.dir, try)
		must(t, os.Mkdir(to, 0o755))
		o := firstPass(src.dir, to)
		o.Workers, o.ProgressInterval = 1, 200*time.Microsecond
		var once sync.Once
		o.Progress = func(p moverreport.Progress) {
			if p.Phase == moverreport.PhaseScan && p.FilesTotal > 0 { // the piece with a is complete
				once.Do(func() { must(t, os.Link(src.dir+"/a", fmt.Sprintf("%s/checkpoint%d", src.dir, try))) })
			}
		}
		if _, err := Copy(context.Background(), o); err != nil {
			t.Fatalf("pass %d: %v", try, err)
		}
		must(t, os.RemoveAll(to))
	}
}

// The same with a file that was copied by an earlier pass and was written to since. The target's second name still has the older time, and
// the first pass says that the target does not store attributes. No retry follows that verdict.
func TestFirstPassToleratesNewLinkOfChangedFile(t *testing.T) {
	src, dst := newVolume(t, 128), newVolume(t, 256)
	writeFile(t, src.dir+"/a", "the contents of both names")
	for i := range 2 * tree.PieceNames {
		writeFile(t, fmt.Sprintf("%s/b%05d", src.dir, i), "")
	}
	must(t, os.Link(src.dir+"/a", src.dir+"/z"))
	waitSettled()
	runFirstPass(t, firstPass(src.dir, dst.dir))
	for try := range 10 {
		writeFile(t, src.dir+"/a", fmt.Sprintf("other contents, %d", try))
		o := firstPass(src.dir, dst.dir)
		o.Workers, o.ProgressInterval = 1, 200*time.Microsecond
		var once sync.Once
		o.Progress = func(p moverreport.Progress) {
			if p.Phase == moverreport.PhaseScan && p.FilesTotal > 0 {
				once.Do(func() { must(t, os.Link(src.dir+"/a", fmt.Sprintf("%s/checkpoint%d", src.dir, try))) })
			}
		}
		if r, err := Copy(context.Background(), o); err != nil {
			t.Fatalf("pass %d: %v, reason %s", try, err, NewReport(r, err, 0).Reason)
		}
	}
}
