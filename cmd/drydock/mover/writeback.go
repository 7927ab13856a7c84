//go:build linux

package mover

import (
	"context"

	"golang.org/x/sys/unix"
)

// writeBack flushes a file system. If the context ends first, it returns at once, and the kernel continues to flush.
func writeBack(ctx context.Context, fd int) error {
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() {
		done <- ignoringEINTR(func() error { return unix.Syncfs(own) })
		unix.Close(own)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
