//go:build linux

package fsys

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// FileStat is the statx result of an entry.
type FileStat struct {
	unix.Stat_t
	Mount      uint64 // id of the entry's mount; 0 on kernels before 5.8, which do not report it
	attributes uint64 // STATX_ATTR_ bits
}

const (
	// statMask costs no more than stat: a network file system sends no request for it.
	statMask = unix.STATX_BASIC_STATS | unix.STATX_MNT_ID
	// statFlags follow no link and trigger no automount.
	statFlags = unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT
)

// StatEntry returns the stat of a name in a directory, or of the directory itself if the name is empty.
func StatEntry(dirfd int, name string) (FileStat, error) {
	flags := statFlags
	if name == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	var x unix.Statx_t
	if err := IgnoringEINTR(func() error { return unix.Statx(dirfd, name, flags, statMask, &x) }); err != nil {
		return FileStat{}, err
	}
	return FileStatOf(&x), nil
}

// StatTerminated writes the stat of a name in a directory to x. The name ends with a NUL. It allocates no memory.
func StatTerminated(dirfd int, name *byte, x *unix.Statx_t) error {
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

func FileStatOf(x *unix.Statx_t) FileStat {
	s := FileStat{
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
		s.Mount = x.Mnt_id
	}
	return s
}

// setLinks sets the link count. The width of that field depends on the architecture.
func setLinks(st *unix.Stat_t, n uint32) { setNumber(&st.Nlink, n) }

func setNumber[T uint32 | uint64](field *T, n uint32) { *field = T(n) }

// Meta is the part of an inode's stat that a copy uses. Two equal values, taken from the same inode at two times, prove
// that its contents and attributes did not change in between, because ctime cannot be set.
type Meta struct {
	Ino                  uint64
	Dev                  uint32 // kernel device numbers have 32 bits
	Size                 int64  // bytes of a regular file or a link's target; the device number of a device; else 0
	MtimeSec, CtimeSec   int64
	MtimeNsec, CtimeNsec uint32
	Mode, Uid, Gid       uint32 // mode with the type bits
	Nlink                uint32
}

func MetaOf(st *unix.Stat_t) Meta {
	m := Meta{
		Ino: st.Ino, Dev: uint32(st.Dev),
		MtimeSec: st.Mtim.Sec, MtimeNsec: uint32(st.Mtim.Nsec),
		CtimeSec: st.Ctim.Sec, CtimeNsec: uint32(st.Ctim.Nsec),
		Mode: st.Mode, Uid: st.Uid, Gid: st.Gid, Nlink: uint32(st.Nlink),
	}
	switch m.Kind() {
	case unix.S_IFREG, unix.S_IFLNK:
		m.Size = st.Size
	case unix.S_IFCHR, unix.S_IFBLK:
		m.Size = int64(st.Rdev)
	}
	return m
}

// Inode identifies an inode. Numbers are unique within a device only: each btrfs subvolume has its own numbers.
type Inode struct {
	Dev uint32
	Ino uint64
}

func (m *Meta) Inode() Inode    { return Inode{m.Dev, m.Ino} }
func (m *Meta) Kind() uint32    { return m.Mode & unix.S_IFMT }
func (m *Meta) IsDir() bool     { return m.Kind() == unix.S_IFDIR }
func (m *Meta) IsRegular() bool { return m.Kind() == unix.S_IFREG }
func (m *Meta) IsSymlink() bool { return m.Kind() == unix.S_IFLNK }

// Permissions returns the mode without the type, or 0 for a symbolic link.
func (m *Meta) Permissions() uint32 {
	if m.IsSymlink() {
		return 0
	}
	return m.Mode &^ unix.S_IFMT
}

// Times returns the times for utimensat, which leave the access time unchanged.
func (m *Meta) Times() []unix.Timespec {
	return []unix.Timespec{{Nsec: unix.UTIME_OMIT}, {Sec: m.MtimeSec, Nsec: int64(m.MtimeNsec)}}
}

// DataBytes estimates how many bytes of a regular file are outside of holes.
func DataBytes(st *unix.Stat_t) int64 {
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return 0
	}
	return min(st.Size, st.Blocks*512)
}

// Snapshot holds everything that a comparison uses of an entry, except contents.
type Snapshot struct {
	Meta  Meta
	Data  int64  // estimated bytes outside of holes
	Flags uint32 // inode flags that both sides can have; 0 for entries that are not opened
	Link  string
	Attrs []Xattr
}

// StatIn returns the attributes of a name in an open directory. The name ends with a NUL.
func StatIn(dirfd int, terminated string) (Snapshot, error) {
	var x unix.Statx_t
	if err := StatTerminated(dirfd, unsafe.StringData(terminated), &x); err != nil {
		return Snapshot{}, err
	}
	st := FileStatOf(&x)
	return Snapshot{Meta: MetaOf(&st.Stat_t), Data: DataBytes(&st.Stat_t)}, nil
}

// Time is a time as inodes store it.
type Time struct{ sec, Nsec int64 }

func (t Time) Before(u Time) bool { return t.sec < u.sec || t.sec == u.sec && t.Nsec < u.Nsec }

func (t Time) Add(d time.Duration) Time {
	if d == 0 {
		return t
	}
	nsec := t.Nsec + int64(d%time.Second)
	return Time{t.sec + int64(d/time.Second) + nsec/int64(time.Second), nsec % int64(time.Second)}
}

func (m *Meta) Ctime() Time { return Time{m.CtimeSec, int64(m.CtimeNsec)} }

func (m *Meta) Mtime() Time { return Time{m.MtimeSec, int64(m.MtimeNsec)} }

func TimeOf(t time.Time) Time { return Time{t.Unix(), int64(t.Nanosecond())} }

func Latest(a, b Time) Time {
	if a.Before(b) {
		return b
	}
	return a
}
