//go:build linux

package mover

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

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
