//go:build linux

// Package fsys wraps the system calls of the mover. Every access below a root is relative to an open directory and never follows a
// symbolic link.
package fsys

import (
	"context"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/fault"
)

// IgnoringEINTRValue calls f again while a signal interrupts it. Unlike package os, raw system calls report EINTR.
func IgnoringEINTRValue[T any](f func() (T, error)) (T, error) {
	for {
		v, err := f()
		if err != unix.EINTR {
			return v, err
		}
	}
}

// IgnoringEINTR is IgnoringEINTRValue for calls without a value.
func IgnoringEINTR(f func() error) error {
	for {
		if err := f(); err != unix.EINTR {
			return err
		}
	}
}

// Openat opens name in dirfd. It never follows a symbolic link and never blocks on a fifo.
func Openat(dirfd int, name string, flags int, mode uint32) (int, error) {
	return IgnoringEINTRValue(func() (int, error) {
		return unix.Openat(dirfd, name, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, mode)
	})
}

func Fstat(fd int) (unix.Stat_t, error) {
	var st unix.Stat_t
	err := IgnoringEINTR(func() error { return unix.Fstat(fd, &st) })
	return st, err
}

func Lstatat(dirfd int, name string) (unix.Stat_t, error) {
	var st unix.Stat_t
	err := IgnoringEINTR(func() error { return unix.Fstatat(dirfd, name, &st, unix.AT_SYMLINK_NOFOLLOW) })
	return st, err
}

// futimens sets the times of an open file.
func futimens(fd int, ts []unix.Timespec) error {
	_, _, errno := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(fd), 0, uintptr(unsafe.Pointer(&ts[0])), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// Readlinkat returns the complete target of a symbolic link, of any length.
func Readlinkat(dirfd int, name string) (string, error) {
	for size := 256; ; size *= 4 {
		buf := make([]byte, size)
		n, err := IgnoringEINTRValue(func() (int, error) { return unix.Readlinkat(dirfd, name, buf) })
		if err == unix.EINVAL {
			err = fault.ErrChanged // it was a link a moment ago
		}
		if err != nil {
			return "", err
		}
		if n < size {
			return string(buf[:n]), nil
		}
	}
}

// ReadFull reads from the offset until buf is full. It returns ErrChanged if the file ends before that.
func ReadFull(fd int, buf []byte, off int64) error {
	for len(buf) > 0 {
		n, err := IgnoringEINTRValue(func() (int, error) { return unix.Pread(fd, buf, off) })
		if err != nil {
			return err
		}
		if n == 0 {
			return fault.ErrChanged
		}
		buf, off = buf[n:], off+int64(n)
	}
	return nil
}

func WriteFull(fd int, buf []byte, off int64) error {
	for len(buf) > 0 {
		n, err := IgnoringEINTRValue(func() (int, error) { return unix.Pwrite(fd, buf, off) })
		if err != nil {
			return err
		}
		buf, off = buf[n:], off+int64(n)
	}
	return nil
}

// DropPages drops the contents of an open file from memory.
func DropPages(fd int) error {
	return IgnoringEINTR(func() error { return unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED) })
}

// WriteBack flushes a file system. If the context ends first, it returns at once, and the kernel continues to flush.
func WriteBack(ctx context.Context, fd int) error {
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() {
		done <- IgnoringEINTR(func() error { return unix.Syncfs(own) })
		unix.Close(own)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// BufferSize is how many bytes a worker reads at a time. It fits into a CPU's cache.
const BufferSize = 128 << 10

// BufferPool is a typed sync.Pool.
type BufferPool[T any] struct{ pool sync.Pool }

func (p *BufferPool[T]) Get() *T {
	if b, ok := p.pool.Get().(*T); ok {
		return b
	}
	return new(T)
}

func (p *BufferPool[T]) Put(b *T) { p.pool.Put(b) }

var Buffers BufferPool[[BufferSize]byte]

// ReadAheadSize is how far the kernel is asked to read ahead of a worker, so that the device works while the worker
// does.
const ReadAheadSize = 4 << 20

// unsearchedSize is the size of the largest file that is not searched for holes. Its estimated data must fill it.
const unsearchedSize = 64 << 10

// Seek is a variable because tests need a file system that reports holes where there is data.
var Seek = unix.Seek

// Input is an open source file.
type Input struct {
	Fd   int
	Data int64 // estimated bytes outside of holes
}

// SeekData is also a barrier on the source, and must stay there for trusted file systems. On ext4 the search, and on xfs the
// fadvise of ReadAhead, takes the lock of the inode that a buffered writer holds. So a first pass waits for a buffered write
// that is in progress, however long it lasts, and the inode then shows it. Only direct writes are left to settlingTime.
//
// SeekData returns the next run of data at or after off. At the end of the data, from equals size. On a file system
// without holes the whole file is one run. It moves the file's offset, which nothing else uses.
func SeekData(fd int, off, size int64) (from, to int64, err error) {
	from, err = IgnoringEINTRValue(func() (int64, error) { return Seek(fd, off, unix.SEEK_DATA) })
	switch err {
	case nil:
	case unix.ENXIO:
		return size, size, nil
	case unix.EINVAL, unix.EOPNOTSUPP:
		return off, size, nil
	default:
		return 0, 0, err
	}
	to, err = IgnoringEINTRValue(func() (int64, error) { return Seek(fd, from, unix.SEEK_HOLE) })
	if err == unix.ENXIO { // truncated by another process
		err = fault.ErrChanged
	}
	return min(from, size), min(to, size), err
}

// NextData skips the search for holes in a small file without any.
func (in Input) NextData(off, size int64) (from, to int64, err error) {
	if size <= unsearchedSize && in.Data == size {
		return off, size, nil
	}
	return SeekData(in.Fd, off, size)
}

// ReadAhead asks the kernel to read a run before it is needed.
type ReadAhead struct {
	Fd       int
	From, To int64 // not requested yet
}

// Advance runs before reading at off. A failed request does not matter.
func (a *ReadAhead) Advance(off int64) {
	if a.To-off > BufferSize && off+ReadAheadSize/2 >= a.From && a.From < a.To {
		_ = unix.Fadvise(a.Fd, a.From, min(ReadAheadSize, a.To-a.From), unix.FADV_WILLNEED)
		a.From += ReadAheadSize
	}
}
