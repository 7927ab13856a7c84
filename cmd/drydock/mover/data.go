//go:build linux

package mover

import (
	"context"

	"golang.org/x/sys/unix"
)

// readAheadSize is how far the kernel is asked to read ahead of a worker, so that the device works while the worker
// does.
const readAheadSize = 4 << 20

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

// nextData returns the next run of data at or after off. At the end of the data, from equals size. On a file system
// without holes the whole file is one run. It moves the file's offset, which nothing else uses.
func nextData(fd int, off, size int64) (from, to int64, err error) {
	from, err = ignoringEINTRValue(func() (int64, error) { return unix.Seek(fd, off, unix.SEEK_DATA) })
	switch err {
	case nil:
	case unix.ENXIO:
		return size, size, nil
	case unix.EINVAL, unix.EOPNOTSUPP:
		return off, size, nil
	default:
		return 0, 0, err
	}
	to, err = ignoringEINTRValue(func() (int64, error) { return unix.Seek(fd, from, unix.SEEK_HOLE) })
	if err == unix.ENXIO { // truncated by another process
		err = errChanged
	}
	return min(from, size), min(to, size), err
}

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
		if err := ignoringEINTR(func() error { return unix.Ftruncate(out, size) }); err != nil {
			return at.fault(target, "extending", e, err)
		}
	}
	c.meter.correct(in.data, copied) // the total contains the estimate of the scan
	return nil
}

// nextData skips the search for holes in a small file without any.
func (in input) nextData(off, size int64) (from, to int64, err error) {
	if size <= copyRangeMin && in.data == size {
		return off, size, nil
	}
	return nextData(in.fd, off, size)
}

// run is a range of data to copy.
type run struct {
	in, out  int
	from, to int64
}

// readAhead asks the kernel to read a run before it is needed.
type readAhead struct {
	fd       int
	from, to int64 // not requested yet
}

// advance runs before reading at off. A failed request does not matter.
func (a *readAhead) advance(off int64) {
	if a.to-off > bufferSize && off+readAheadSize/2 >= a.from && a.from < a.to {
		_ = unix.Fadvise(a.fd, a.from, min(readAheadSize, a.to-a.from), unix.FADV_WILLNEED)
		a.from += readAheadSize
	}
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
		if err := context.Cause(ctx); err != nil {
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

// input is an open source file.
type input struct {
	fd   int
	data int64 // estimated bytes outside of holes
}
