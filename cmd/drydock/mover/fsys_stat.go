//go:build linux

package mover

import (
	"time"
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

// meta is the part of an inode's stat that a copy uses. Two equal values, taken from the same inode at two times, prove
// that its contents and attributes did not change in between, because ctime cannot be set.
type meta struct {
	ino                  uint64
	dev                  uint32 // kernel device numbers have 32 bits
	size                 int64  // bytes of a regular file or a link's target; the device number of a device; else 0
	mtimeSec, ctimeSec   int64
	mtimeNsec, ctimeNsec uint32
	mode, uid, gid       uint32 // mode with the type bits
	nlink                uint32
}

func metaOf(st *unix.Stat_t) meta {
	m := meta{
		ino: st.Ino, dev: uint32(st.Dev),
		mtimeSec: st.Mtim.Sec, mtimeNsec: uint32(st.Mtim.Nsec),
		ctimeSec: st.Ctim.Sec, ctimeNsec: uint32(st.Ctim.Nsec),
		mode: st.Mode, uid: st.Uid, gid: st.Gid, nlink: uint32(st.Nlink),
	}
	switch m.kind() {
	case unix.S_IFREG, unix.S_IFLNK:
		m.size = st.Size
	case unix.S_IFCHR, unix.S_IFBLK:
		m.size = int64(st.Rdev)
	}
	return m
}

// inode identifies an inode. Numbers are unique within a device only: each btrfs subvolume has its own numbers.
type inode struct {
	dev uint32
	ino uint64
}

func (m *meta) inode() inode    { return inode{m.dev, m.ino} }
func (m *meta) kind() uint32    { return m.mode & unix.S_IFMT }
func (m *meta) isDir() bool     { return m.kind() == unix.S_IFDIR }
func (m *meta) isRegular() bool { return m.kind() == unix.S_IFREG }
func (m *meta) isSymlink() bool { return m.kind() == unix.S_IFLNK }

// permissions returns the mode without the type, or 0 for a symbolic link.
func (m *meta) permissions() uint32 {
	if m.isSymlink() {
		return 0
	}
	return m.mode &^ unix.S_IFMT
}

// times returns the times for utimensat, which leave the access time unchanged.
func (m *meta) times() []unix.Timespec {
	return []unix.Timespec{{Nsec: unix.UTIME_OMIT}, {Sec: m.mtimeSec, Nsec: int64(m.mtimeNsec)}}
}

// dataBytes estimates how many bytes of a regular file are outside of holes.
func dataBytes(st *unix.Stat_t) int64 {
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return 0
	}
	return min(st.Size, st.Blocks*512)
}

// snapshot holds everything that a comparison uses of an entry, except contents.
type snapshot struct {
	meta  meta
	data  int64  // estimated bytes outside of holes
	flags uint32 // inode flags that both sides can have; 0 for entries that are not opened
	link  string
	attrs []xattr
}

// statIn returns the attributes of an entry from a block, in an open directory.
func statIn(dirfd int, e *entry) (snapshot, error) {
	var x unix.Statx_t
	if err := statTerminated(dirfd, unsafe.StringData(e.terminated), &x); err != nil {
		return snapshot{}, err
	}
	st := fileStatOf(&x)
	return snapshot{meta: metaOf(&st.Stat_t), data: dataBytes(&st.Stat_t)}, nil
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
