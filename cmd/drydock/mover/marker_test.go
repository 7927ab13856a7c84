//go:build linux

package mover

import (
	"os"
	"slices"
	"testing"

	"drydock.dev/cmd/drydock/mover/fault"
	"drydock.dev/cmd/drydock/mover/target"
	"drydock.dev/shared/moverreport"
)

// TestUnreadableMarkerIsNoForeignTarget: fstat fails because the storage does not answer (EIO, ETIMEDOUT of a soft mount). That says
// nothing about the marker. The code must be one that is retried: with TargetNotEmpty, backup ends the operation and retains all targets of
// the member as volumes with foreign data.
func TestUnreadableMarkerIsNoForeignTarget(t *testing.T) {
	f, err := os.Create(t.TempDir() + "/" + target.MarkerName)
	must(t, err)
	must(t, f.Close()) // fstat fails now, and the marker exists
	c := &target.Owner{Marker: f}
	err = c.CheckOwned()
	e := fault.ToError(err, nil)
	if e == nil || e.Reason != moverreport.ReasonIOError || slices.Contains(moverreport.FinalCodes(), int32(e.Code)) {
		t.Errorf("%v", err)
	}
}
