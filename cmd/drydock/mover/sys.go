//go:build linux

package mover

import (
	"bytes"
	"encoding/binary"
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

// eachDirent parses the result of getdents64: records of inode, offset, length (16 bit), type (8 bit), name and NUL.
func eachDirent(buf []byte, yield func(name []byte, kind uint32)) {
	const header = int(unsafe.Offsetof(unix.Dirent{}.Name))
	for len(buf) >= header {
		length := int(binary.NativeEndian.Uint16(buf[unsafe.Offsetof(unix.Dirent{}.Reclen):]))
		name := buf[header:length]
		name = name[:bytes.IndexByte(name, 0)]
		if string(name) != "." && string(name) != ".." {
			yield(name, uint32(buf[unsafe.Offsetof(unix.Dirent{}.Type)])<<12) // DT_x is S_IFx >> 12
		}
		buf = buf[length:]
	}
}
