//go:build linux

package mover

import (
	"context"
	"time"

	"golang.org/x/sys/unix"
)

// While a pass copies many small files, it flushes the target each flushInterval if flushFiles were written. The kernel alone begins to
// write after some seconds or with a tenth of the memory, so a device is idle while files are created.
const (
	flushInterval = 500 * time.Millisecond
	flushFiles    = 4 << 10
)

// flushBehind flushes the target until the returned function is called. Errors are left to the flush at the end: the kernel reports an
// error of the device once to each open file (errseq_check_and_advance in fs/sync.c), and this function has its own.
func (c *copier) flushBehind(ctx context.Context) (stop func()) {
	fd, err := c.dst.open(c.tree.top)
	if err != nil {
		return func() {}
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		defer unix.Close(fd)
		tick := time.NewTicker(flushInterval)
		defer tick.Stop()
		for flushed := int64(0); ; {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			if now := c.files.Load(); now-flushed >= flushFiles {
				flushed = now
				_ = writeBack(ctx, fd)
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}
