//go:build linux

package mover

import (
	"cmp"
	"context"

	"golang.org/x/sys/unix"
)

// writeBehindSize is how much of a file is written before the device is asked to begin with it. Otherwise the kernel
// leaves nearly everything to the flush at the end, and the device is idle while the worker reads. Files below
// writeBehindMin are left to the kernel, which writes neighbours together.
const (
	writeBehindSize = 8 << 20
	writeBehindMin  = 1 << 20
)

// copyRangeSize is the length of one copy_file_range call. Between calls the copy can stop and report its progress.
const copyRangeSize = 4 << 20

// copyRangeMin is the minimum size for copy_file_range, because smaller copies are not worth the call.
const copyRangeMin = 64 << 10

// copyData copies the data between the holes of in to the empty file out.
func (c *copier) copyData(ctx context.Context, at pair, e *entry, in input, out int) error {
	size, copied, end := e.meta.size, int64(0), int64(0)
	if size == 0 {
		return nil
	}
	for off := int64(0); off < size; {
		from, to, err := in.nextData(off, size)
		if err != nil {
			return at.fault(source, "reading", e, err)
		}
		if from < to {
			if err := c.copyRun(ctx, at, e, run{in.fd, out, from, to}); err != nil {
				return err
			}
			copied, end = copied+to-from, to
		}
		off = to
	}
	if end < size { // the file ends in a hole
		if err := c.checkOwned(); err != nil {
			return err
		}
		if err := ignoringEINTR(func() error { return unix.Ftruncate(out, size) }); err != nil {
			return at.fault(target, "extending", e, err)
		}
	}
	c.meter.correct(in.data, copied) // the total contains the estimate of the scan
	return nil
}

// run is a range of data to copy.
type run struct {
	in, out  int
	from, to int64
}

// writeBehind starts the writing of data to the device while a worker reads on.
type writeBehind struct {
	fd   int
	from int64 // not passed to the device yet
	to   int64
}

// advance runs when everything before off is written to memory. It only begins the write to the device. A failure does
// not matter here: the flush of the whole file system at the end reports errors of these writes, too.
func (b *writeBehind) advance(off int64) {
	if n := off - b.from; n >= writeBehindSize || off >= b.to && n >= writeBehindMin {
		_ = unix.SyncFileRange(b.fd, b.from, n, unix.SYNC_FILE_RANGE_WRITE)
		b.from = off
	}
}

func (c *copier) copyRun(ctx context.Context, at pair, e *entry, r run) error {
	next, written := readAhead{r.in, r.from, r.to}, writeBehind{r.out, r.from, r.to}
	for r.from < r.to {
		next.advance(r.from)
		if err := cmp.Or(context.Cause(ctx), c.checkOwned()); err != nil {
			return err
		}
		n, err := c.copySome(at, e, r)
		if err != nil {
			return err
		}
		r.from += n
		written.advance(r.from)
		c.bytes.Add(n)
		c.meter.bytes.Add(n)
		if c.hooks.wrote != nil {
			c.hooks.wrote(at.dir.join(e.name), n)
		}
		c.limit.wait(ctx, 2*n)
	}
	return nil
}

// copySome copies the beginning of a run, in the kernel if possible.
func (c *copier) copySome(at pair, e *entry, r run) (int64, error) {
	if r.to-r.from >= copyRangeMin && !c.noRange.Load() {
		from, to := r.from, r.from
		n, err := ignoringEINTRValue(func() (int, error) {
			return unix.CopyFileRange(r.in, &from, r.out, &to, int(c.limit.piece(min(r.to-r.from, copyRangeSize))), 0)
		})
		if err == nil && n > 0 {
			return int64(n), nil
		}
		// copy_file_range fails between different file systems, some implement it badly, and its errors do not show which side
		// failed. Reading and writing shows that. Zero bytes may mean the end of the file or a failure.
		if isAny(err, unix.EXDEV, unix.ENOSYS, unix.EOPNOTSUPP, unix.EINVAL, unix.EPERM) {
			c.noRange.Store(true)
		}
	}
	return c.readAndWrite(at, e, r)
}

func (c *copier) readAndWrite(at pair, e *entry, r run) (int64, error) {
	whole := buffers.Get()
	defer buffers.Put(whole)
	n, err := ignoringEINTRValue(func() (int, error) { return unix.Pread(r.in, whole[:min(r.to-r.from, bufferSize)], r.from) })
	if err == nil && n == 0 {
		err = errChanged // shorter than it was
	}
	if err != nil {
		return 0, at.fault(source, "reading", e, err)
	}
	if err := c.checkOwned(); err != nil { // the read may have waited
		return 0, err
	}
	for buf, off := whole[:n], r.from; len(buf) > 0; {
		w, err := ignoringEINTRValue(func() (int, error) { return unix.Pwrite(r.out, buf, off) })
		if err != nil {
			return 0, at.fault(target, "writing", e, err)
		}
		buf, off = buf[w:], off+int64(w)
	}
	c.keepCopied(e, whole[:n])
	return int64(n), nil
}
