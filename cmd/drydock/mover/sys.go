//go:build linux

package mover

import (
	"bytes"
	"encoding/binary"
	"time"
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

// fileStat is the statx result of an entry.
type fileStat struct {
	unix.Stat_t
	mount      uint64 // id of the entry's mount; 0 on kernels before 5.8, which do not report it
	attributes uint64 // STATX_ATTR_ bits
}

const (
	// statMask costs no more than stat: a network file system sends no request for it.
	statMask = unix.STATX_BASIC_STATS | unix.STATX_MNT_ID
	// statFlags follow no link and trigger no automount.
	statFlags = unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT
)

// statEntry returns the stat of a name in a directory, or of the directory itself if the name is empty.
func statEntry(dirfd int, name string) (fileStat, error) {
	flags := statFlags
	if name == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	var x unix.Statx_t
	if err := ignoringEINTR(func() error { return unix.Statx(dirfd, name, flags, statMask, &x) }); err != nil {
		return fileStat{}, err
	}
	return fileStatOf(&x), nil
}

// statTerminated writes the stat of a name in a directory to x. The name ends with a NUL. It allocates no memory.
func statTerminated(dirfd int, name *byte, x *unix.Statx_t) error {
	for {
		_, _, errno := unix.Syscall6(unix.SYS_STATX, uintptr(dirfd), uintptr(unsafe.Pointer(name)), statFlags, statMask,
			uintptr(unsafe.Pointer(x)), 0)
		switch errno {
		case 0:
			return nil
		case unix.EINTR:
		default:
			return errno
		}
	}
}

func fileStatOf(x *unix.Statx_t) fileStat {
	s := fileStat{
		Stat_t: unix.Stat_t{
			Dev: unix.Mkdev(x.Dev_major, x.Dev_minor), Ino: x.Ino, Mode: uint32(x.Mode), Uid: x.Uid, Gid: x.Gid,
			Rdev: unix.Mkdev(x.Rdev_major, x.Rdev_minor), Size: int64(x.Size), Blocks: int64(x.Blocks),
			Mtim: unix.Timespec{Sec: x.Mtime.Sec, Nsec: int64(x.Mtime.Nsec)},
			Ctim: unix.Timespec{Sec: x.Ctime.Sec, Nsec: int64(x.Ctime.Nsec)},
		},
		attributes: x.Attributes & x.Attributes_mask,
	}
	setLinks(&s.Stat_t, x.Nlink)
	if x.Mask&unix.STATX_MNT_ID != 0 {
		s.mount = x.Mnt_id
	}
	return s
}

// setLinks sets the link count. The width of that field depends on the architecture.
func setLinks(st *unix.Stat_t, n uint32) { setNumber(&st.Nlink, n) }

func setNumber[T uint32 | uint64](field *T, n uint32) { *field = T(n) }

// isElsewhere reports whether another file system is mounted at the entry. A btrfs subvolume has another device number
// but the same mount. On kernels that do not report mounts, another device number counts as another mount.
func (r *root) isElsewhere(s *fileStat) bool {
	if r.mount != 0 && s.mount != 0 {
		return s.mount != r.mount
	}
	return s.Dev != r.dev
}

// unixTime is a time as inodes store it.
type unixTime struct{ sec, nsec int64 }

func (t unixTime) before(u unixTime) bool { return t.sec < u.sec || t.sec == u.sec && t.nsec < u.nsec }

func (t unixTime) add(d time.Duration) unixTime {
	if d == 0 {
		return t
	}
	nsec := t.nsec + int64(d%time.Second)
	return unixTime{t.sec + int64(d/time.Second) + nsec/int64(time.Second), nsec % int64(time.Second)}
}

func (m *meta) ctime() unixTime { return unixTime{m.ctimeSec, int64(m.ctimeNsec)} }

func (m *meta) mtime() unixTime { return unixTime{m.mtimeSec, int64(m.mtimeNsec)} }

func unixTimeOf(t time.Time) unixTime { return unixTime{t.Unix(), int64(t.Nanosecond())} }

func latest(a, b unixTime) unixTime {
	if a.before(b) {
		return b
	}
	return a
}

// effectiveCapabilities returns the effective capabilities of this process as a set of bits.
func effectiveCapabilities() uint64 {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&head, &data[0]); err != nil {
		return 0
	}
	return uint64(data[0].Effective) | uint64(data[1].Effective)<<32
}

func hasCapability(n int) bool { return effectiveCapabilities()>>n&1 != 0 }

// seesTrusted reports whether this process can list attributes of the namespace trusted.
func seesTrusted() bool { return hasCapability(unix.CAP_SYS_ADMIN) }
