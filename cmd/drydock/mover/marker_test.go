//go:build linux

package mover

import (
	"os"
	"slices"
	"testing"

	"drydock.dev/shared/moverreport"
)

// TestUnreadableMarkerIsNoForeignTarget: fstat fails because the storage does not answer (EIO, ETIMEDOUT of a soft mount). That says
// nothing about the marker. The code must be one that is retried: with TargetNotEmpty, backup ends the operation and retains all targets of
// the member as volumes with foreign data.
func TestUnreadableMarkerIsNoForeignTarget(t *testing.T) {
	f, err := os.Create(t.TempDir() + "/" + markerName)
	must(t, err)
	must(t, f.Close()) // fstat fails now, and the marker exists
	c := &owner{marker: f}
	err = c.checkOwned()
	if e := toError(err, nil); e == nil || e.Reason != moverreport.ReasonIOError || slices.Contains(moverreport.FinalCodes(), int32(e.Code)) {
		t.Errorf("%v", err)
	}
}
