//go:build linux

package mover

import (
	"iter"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

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

// entry is a name in a directory of the source.
type entry struct {
	name       string
	terminated string // the name and a NUL, if the entry comes from a block
	sub        *dir   // nil unless it is a directory
	copied     *sum   // hash of what this pass has copied; nil if none is kept, see reserveCopiedSums
	meta       meta
}

// dir is a directory of the source. The package comment states its size.
type dir struct {
	parent   *dir        // nil for the root
	depth    int         // 0 for the root
	self     *entry      // the root's has the name ""
	blocks   []block     // the entries, sorted by name
	fresh    bool        // the target's directory was created, or found empty, by this run
	flags    uint32      // inode flags that are carried; after its preparation the root also has those of the target's root
	presumed bool        // the target's directory was not looked at, see presumesDir
	written  atomic.Bool // something may have been written in the target's directory
	unread   atomic.Bool // see noteChange
	excluded bool        // later steps skip it: the target's directory cannot be used, for a collected reason
}

// count returns the number of entries.
func (d *dir) count() (n int) {
	for i := range d.blocks {
		n += d.blocks[i].count
	}
	return n
}

// exclude makes later steps skip a directory and everything below it.
func (d *dir) exclude() {
	d.excluded = true
	for sub := range d.subs() {
		sub.exclude()
	}
}

// path returns the path relative to the root, which is "" for the root itself.
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

// join returns the path of a name in d.
func (d *dir) join(name string) string {
	if d.parent == nil {
		return name
	}
	return d.path() + "/" + name
}

// block holds up to blockEntries entries of a directory, sorted by name, in a compact form. Memory for millions of entries
// is scarce, and most of them are needed only twice: to compare and to verify.
//
// Each entry has the length of the prefix that its name shares with the previous name, the length of the rest, the rest, a
// byte of flags, and the fields of meta as differences from the previous entry. Fields are left out as the flags say.
type block struct {
	data   []byte
	subs   []*dir // the subdirectories among the entries, in the same order
	count  int
	text   int   // bytes of all names, with a NUL after each
	copied []sum // of each entry; nil if none is kept, see reserveCopiedSums

	presumed int   // regular files that the target presumably has, see presume.go
	bytes    int64 // their data
}

// isPresumed reports whether all entries except directories are presumed.
func (b *block) isPresumed() bool { return b.presumed+len(b.subs) == b.count }

// subs yields the subdirectories.
func (d *dir) subs() iter.Seq[*dir] {
	return func(yield func(*dir) bool) {
		for i := range d.blocks {
			for _, sub := range d.blocks[i].subs {
				if !yield(sub) {
					return
				}
			}
		}
	}
}
