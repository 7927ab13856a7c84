//go:build linux && root

package mover

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drydock.dev/cmd/drydock/mover/tree"
)

// TestDeviceWithoutBackingIsNoSource: a network block device (nbd, rbd-nbd) that has lost its server, like this loop device without a file,
// can be opened and has 0 bytes. A copy of nothing must not be reported as a verified copy: the member would get an empty device.
func TestDeviceWithoutBackingIsNoSource(t *testing.T) {
	needRoot(t)
	image := filepath.Join(t.TempDir(), "image")
	must(t, os.WriteFile(image, make([]byte, 1<<20), 0o600))
	target := strings.TrimSpace(runCommand(t, "losetup", "--find", "--show", image))
	t.Cleanup(func() { runCommand(t, "losetup", "-d", target) })
	free := strings.TrimSpace(runCommand(t, "losetup", "--find"))
	r, err := CopyDevice(context.Background(), Options{Source: free, Target: target, Pass: tree.PassFinal})
	if err == nil {
		t.Errorf("the source %s has no contents, and the copy is verified: %+v", free, r)
	}
}
