package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The driver freezes a file system during a copy, and may be killed at that moment.
func TestFrozenFileSystemIsUnmounted(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("making a file system needs root. Run this test as root")
	}
	dir := t.TempDir()
	image, point := filepath.Join(dir, "image"), filepath.Join(dir, "data")
	if err := os.Mkdir(point, 0o755); err != nil {
		t.Fatal(err)
	}
	must := func(name string, args ...string) string {
		output, err := Run(t.Context(), name, args...)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(output)
	}
	must("truncate", "--size=16M", image)
	must("mkfs.ext4", "-q", image)
	must("mount", must("losetup", "--find", "--show", image), point)
	must("fsfreeze", "--freeze", point)
	if err := UnmountAll(t.Context(), dir); err != nil {
		t.Error(err)
	}
	if err := DetachLoops(t.Context(), dir); err != nil {
		t.Error(err)
	}
	if loops, err := Loops(dir); err != nil || len(loops) > 0 {
		t.Errorf("loop devices %v still exist, %v", loops, err)
	}
}
