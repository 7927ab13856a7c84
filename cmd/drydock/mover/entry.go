//go:build linux

package mover

import (
	"sort"
	"strings"

	"golang.org/x/sys/unix"
)

// meta is what stat says of an inode, as far as a copy has to know it. Two equal values, taken at two times of the same
// inode, mean that neither its contents nor its attributes were changed in between (ctime cannot be set).
type meta struct {
	ino                  uint64
	dev                  uint32 // the kernel's device numbers have 32 bits
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

// inode identifies an inode. Numbers are unique within a device only: a btrfs subvolume counts anew.
type inode struct {
	dev uint32
	ino uint64
}

func (m *meta) inode() inode    { return inode{m.dev, m.ino} }
func (m *meta) kind() uint32    { return m.mode & unix.S_IFMT }
func (m *meta) isDir() bool     { return m.kind() == unix.S_IFDIR }
func (m *meta) isRegular() bool { return m.kind() == unix.S_IFREG }
func (m *meta) isSymlink() bool { return m.kind() == unix.S_IFLNK }

// permissions are the mode without the type. A symbolic link has none.
func (m *meta) permissions() uint32 {
	if m.isSymlink() {
		return 0
	}
	return m.mode &^ unix.S_IFMT
}

// times are for utimensat: the access time is left as it is.
func (m *meta) times() []unix.Timespec {
	return []unix.Timespec{{Nsec: unix.UTIME_OMIT}, {Sec: m.mtimeSec, Nsec: int64(m.mtimeNsec)}}
}

// dataBytes estimates how much of a regular file is not hole.
func dataBytes(st *unix.Stat_t) int64 {
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return 0
	}
	return min(st.Size, st.Blocks*512)
}

// entry is a name in a directory of the source. Its size is stated in the package comment.
type entry struct {
	name string
	sub  *dir // not nil for a directory
	meta meta
}

// dir is a directory of the source.
type dir struct {
	parent  *dir    // nil for the root
	self    *entry  // the root's has the name ""
	entries []entry // sorted by name
	fresh   bool    // the target's counterpart was made, or found empty, by this run
	flags   uint32  // carried inode flags
	barred  bool    // the target's counterpart cannot be used, for a reason that was collected: left out by later steps
}

// bar leaves a directory and all below it out of the later steps.
func (d *dir) bar() {
	d.barred = true
	for i := range d.entries {
		if sub := d.entries[i].sub; sub != nil {
			sub.bar()
		}
	}
}

// path is relative to the root; the root's is "".
func (d *dir) path() string {
	if d.parent == nil {
		return ""
	}
	var names []string
	length := 0
	for ; d.parent != nil; d = d.parent {
		names = append(names, d.self.name)
		length += len(d.self.name) + 1
	}
	var b strings.Builder
	b.Grow(length)
	for i := len(names) - 1; i >= 0; i-- {
		b.WriteString(names[i])
		if i > 0 {
			b.WriteByte('/')
		}
	}
	return b.String()
}

// join is the path of a name in d.
func (d *dir) join(name string) string {
	if d.parent == nil {
		return name
	}
	return d.path() + "/" + name
}

// find returns nil if the source has no such name.
func (d *dir) find(name string) *entry {
	i := sort.Search(len(d.entries), func(i int) bool { return d.entries[i].name >= name })
	if i < len(d.entries) && d.entries[i].name == name {
		return &d.entries[i]
	}
	return nil
}

// isLostFound reports whether a name in d may be the file system's own.
func (d *dir) isLostFound(name string) bool { return d.parent == nil && name == lostFound }
