//go:build linux && root

package mover

import (
	"fmt"
	"os"
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
