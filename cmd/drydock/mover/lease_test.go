//go:build linux

package mover

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFirstPassLeavesLeasedFile: the running member has a write lease on a file, as Samba with kernel oplocks and the kernel's NFS server
// do. The open call then returns EAGAIN and asks the member to give the lease up. A later pass copies the file.
func TestFirstPassLeavesLeasedFile(t *testing.T) {
	src, dst := t.TempDir(), t.TempDir()
	must(t, os.WriteFile(filepath.Join(src, "a"), []byte("a"), 0o600))
	must(t, os.WriteFile(filepath.Join(src, "b"), []byte("b"), 0o600))
	fd, err := unix.Open(filepath.Join(src, "b"), unix.O_RDWR, 0)
	must(t, err)
	defer unix.Close(fd)
	_, err = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_WRLCK)
	must(t, err)
	r, err := Copy(context.Background(), firstPass(src, dst))
	if err != nil || r.Changed != 1 {
		t.Errorf("%d changed, %v", r.Changed, err)
	}
}
