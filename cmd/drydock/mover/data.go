//go:build linux

package mover

import (
	"context"
	"sync"

	"golang.org/x/sys/unix"
)

// bufferSize is what one worker reads at a time: small enough for a CPU's cache.
const bufferSize = 128 << 10

// aheadSize is how far the kernel is asked to read ahead of a worker, so that the device works while the worker does.
const aheadSize = 4 << 20

// behindSize is how much of a file is written before the device is told to begin with it: else the kernel leaves nearly
// all of it to the flush at the end, and the device is idle while the worker reads. behindLeast is worth the call: small
// files are better off in the kernel's hands, which puts neighbours together.
const (
	behindSize  = 8 << 20
	behindLeast = 1 << 20
)

// rangeSize is what copy_file_range is asked for at a time: the copy can be stopped and tells its progress in between.
const rangeSize = 4 << 20

// rangeLeast is the size from which copy_file_range is worth its call.
const rangeLeast = 64 << 10

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// nextData finds the next run of data at or after off. At the end of the data, from is size. A file system that does
// not know holes has one run. It moves the file's offset, which nothing else uses.
func nextData(fd int, off, size int64) (from, to int64, err error) {
	from, err = again(func() (int64, error) { return unix.Seek(fd, off, unix.SEEK_DATA) })
	switch err {
	case nil:
	case unix.ENXIO:
		return size, size, nil
	case unix.EINVAL, unix.EOPNOTSUPP:
		return off, size, nil
	default:
		return 0, 0, err
	}
	to, err = again(func() (int64, error) { return unix.Seek(fd, from, unix.SEEK_HOLE) })
	if err == unix.ENXIO { // cut off meanwhile
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
		if err := againErr(func() error { return unix.Ftruncate(out, size) }); err != nil {
			return at.fault(target, "extending", e, err)
		}
	}
	c.meter.correct(in.data, copied) // the total has the estimate of the scan
	return nil
}

// nextData spares a small file without holes the search for them.
func (in input) nextData(off, size int64) (from, to int64, err error) {
	if size <= rangeLeast && in.data == size {
		return off, size, nil
	}
	return nextData(in.fd, off, size)
}

// run is a range of data to copy.
type run struct {
	in, out  int
	from, to int64
}

// ahead asks for the reading of a run before it is needed.
type ahead struct {
	fd       int
	from, to int64 // what has not been asked for
}

// at is called before reading at off. That the request may fail does not matter.
func (a *ahead) at(off int64) {
	if a.to-off > bufferSize && off+aheadSize/2 >= a.from && a.from < a.to {
		_ = unix.Fadvise(a.fd, a.from, min(aheadSize, a.to-a.from), unix.FADV_WILLNEED)
		a.from += aheadSize
	}
}

// behind follows a worker: what it has written goes to the device while it reads on.
type behind struct {
	fd   int
	from int64 // what the device has not been told of
	to   int64
}

// at is called when everything before off is written. It only begins the writing. That it may fail does not matter: the
// flush of the whole file system at the end answers for all, also for what was begun here.
func (b *behind) at(off int64) {
	if n := off - b.from; n >= behindSize || off >= b.to && n >= behindLeast {
		_ = unix.SyncFileRange(b.fd, b.from, n, unix.SYNC_FILE_RANGE_WRITE)
		b.from = off
	}
}

func (c *copier) copyRun(ctx context.Context, at pair, e *entry, r run) error {
	next, written := ahead{r.in, r.from, r.to}, behind{r.out, r.from, r.to}
	for r.from < r.to {
		next.at(r.from)
		if err := context.Cause(ctx); err != nil {
			return err
		}
		n, err := c.copySome(at, e, r)
		if err != nil {
			return err
		}
		r.from += n
		written.at(r.from)
		c.bytes.Add(n)
		c.meter.bytes.Add(n)
		if c.hooks.wrote != nil {
			c.hooks.wrote(at.dir.join(e.name), n)
		}
		c.limit.took(ctx, 2*n)
	}
	return nil
}

// copySome copies the beginning of a run, in the kernel if it can.
func (c *copier) copySome(at pair, e *entry, r run) (int64, error) {
	if r.to-r.from >= rangeLeast && !c.noRange.Load() {
		from, to := r.from, r.from
		n, err := again(func() (int, error) {
			return unix.CopyFileRange(r.in, &from, r.out, &to, int(c.limit.piece(min(r.to-r.from, rangeSize))), 0)
		})
		if err == nil && n > 0 {
			return int64(n), nil
		}
		// It does not work between different file systems, some do it badly, and its errors do not tell the side. Only
		// reading and writing says what is wrong. Zero bytes may be the end of the file or a file system's excuse.
		if isAny(err, unix.EXDEV, unix.ENOSYS, unix.EOPNOTSUPP, unix.EINVAL, unix.EPERM) {
			c.noRange.Store(true)
		}
	}
	return c.readAndWrite(at, e, r)
}

func (c *copier) readAndWrite(at pair, e *entry, r run) (int64, error) {
	whole := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(whole)
	n, err := again(func() (int, error) { return unix.Pread(r.in, whole[:min(r.to-r.from, bufferSize)], r.from) })
	if err == nil && n == 0 {
		err = errChanged // shorter than it was
	}
	if err != nil {
		return 0, at.fault(source, "reading", e, err)
	}
	for buf, off := whole[:n], r.from; len(buf) > 0; {
		w, err := again(func() (int, error) { return unix.Pwrite(r.out, buf, off) })
		if err != nil {
			return 0, at.fault(target, "writing", e, err)
		}
		buf, off = buf[w:], off+int64(w)
	}
	return int64(n), nil
}
