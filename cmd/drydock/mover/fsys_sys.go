//go:build linux

package mover

import (
	"context"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ignoringEINTRValue calls f again while a signal interrupts it. Unlike package os, raw system calls report EINTR.
func ignoringEINTRValue[T any](f func() (T, error)) (T, error) {
	for {
		v, err := f()
		if err != unix.EINTR {
			return v, err
		}
	}
}

// ignoringEINTR is ignoringEINTRValue for calls without a value.
func ignoringEINTR(f func() error) error {
	for {
		if err := f(); err != unix.EINTR {
			return err
		}
	}
}

// openat opens name in dirfd. It never follows a symbolic link and never blocks on a fifo.
func openat(dirfd int, name string, flags int, mode uint32) (int, error) {
	return ignoringEINTRValue(func() (int, error) {
		return unix.Openat(dirfd, name, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, mode)
	})
}

func fstat(fd int) (unix.Stat_t, error) {
	var st unix.Stat_t
	err := ignoringEINTR(func() error { return unix.Fstat(fd, &st) })
	return st, err
}

func lstatat(dirfd int, name string) (unix.Stat_t, error) {
	var st unix.Stat_t
	err := ignoringEINTR(func() error { return unix.Fstatat(dirfd, name, &st, unix.AT_SYMLINK_NOFOLLOW) })
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

// readlinkat returns the complete target of a symbolic link, of any length.
func readlinkat(dirfd int, name string) (string, error) {
	for size := 256; ; size *= 4 {
		buf := make([]byte, size)
		n, err := ignoringEINTRValue(func() (int, error) { return unix.Readlinkat(dirfd, name, buf) })
		if err == unix.EINVAL {
			err = errChanged // it was a link a moment ago
		}
		if err != nil {
			return "", err
		}
		if n < size {
			return string(buf[:n]), nil
		}
	}
}

// readFull reads from the offset until buf is full. It returns errChanged if the file ends before that.
func readFull(fd int, buf []byte, off int64) error {
	for len(buf) > 0 {
		n, err := ignoringEINTRValue(func() (int, error) { return unix.Pread(fd, buf, off) })
		if err != nil {
			return err
		}
		if n == 0 {
			return errChanged
		}
		buf, off = buf[n:], off+int64(n)
	}
	return nil
}

func writeFull(fd int, buf []byte, off int64) error {
	for len(buf) > 0 {
		n, err := ignoringEINTRValue(func() (int, error) { return unix.Pwrite(fd, buf, off) })
		if err != nil {
			return err
		}
		buf, off = buf[n:], off+int64(n)
	}
	return nil
}

// dropPages drops the contents of an open file from memory.
func dropPages(fd int) error {
	return ignoringEINTR(func() error { return unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED) })
}

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

// bufferSize is how many bytes a worker reads at a time. It fits into a CPU's cache.
const bufferSize = 128 << 10

// bufferPool is a typed sync.Pool.
type bufferPool[T any] struct{ pool sync.Pool }

func (p *bufferPool[T]) Get() *T {
	if b, ok := p.pool.Get().(*T); ok {
		return b
	}
	return new(T)
}

func (p *bufferPool[T]) Put(b *T) { p.pool.Put(b) }

var buffers bufferPool[[bufferSize]byte]
