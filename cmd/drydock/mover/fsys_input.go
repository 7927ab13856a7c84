//go:build linux

package mover

import "golang.org/x/sys/unix"

// readAheadSize is how far the kernel is asked to read ahead of a worker, so that the device works while the worker
// does.
const readAheadSize = 4 << 20

// unsearchedSize is the size of the largest file that is not searched for holes. Its estimated data must fill it.
const unsearchedSize = 64 << 10

// seek is a variable because tests need a file system that reports holes where there is data.
var seek = unix.Seek

// input is an open source file.
type input struct {
	fd   int
	data int64 // estimated bytes outside of holes
}

// seekData is also a barrier on the source, and must stay there for trusted file systems. On ext4 the search, and on xfs the
// fadvise of readAhead, takes the lock of the inode that a buffered writer holds. So a first pass waits for a buffered write
// that is in progress, however long it lasts, and the inode then shows it. Only direct writes are left to settlingTime.
//
// seekData returns the next run of data at or after off. At the end of the data, from equals size. On a file system
// without holes the whole file is one run. It moves the file's offset, which nothing else uses.
func seekData(fd int, off, size int64) (from, to int64, err error) {
	from, err = ignoringEINTRValue(func() (int64, error) { return seek(fd, off, unix.SEEK_DATA) })
	switch err {
	case nil:
	case unix.ENXIO:
		return size, size, nil
	case unix.EINVAL, unix.EOPNOTSUPP:
		return off, size, nil
	default:
		return 0, 0, err
	}
	to, err = ignoringEINTRValue(func() (int64, error) { return seek(fd, from, unix.SEEK_HOLE) })
	if err == unix.ENXIO { // truncated by another process
		err = errChanged
	}
	return min(from, size), min(to, size), err
}

// nextData skips the search for holes in a small file without any.
func (in input) nextData(off, size int64) (from, to int64, err error) {
	if size <= unsearchedSize && in.data == size {
		return off, size, nil
	}
	return seekData(in.fd, off, size)
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
