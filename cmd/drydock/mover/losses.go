//go:build linux

package mover

import (
	"math"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Project ids, extent size hints and preallocated space are not carried: they belong to the quota and the layout of a volume.
// A workload can miss them, for example when its preallocated log meets a full volume. So a pass that copies an entry, or sets the
// attributes of a directory, warns of them.

// settings is the struct fsxattr of FS_IOC_FSGETXATTR, which needs no privilege.
type settings struct {
	flags, extentSize, extents, project, cowExtentSize uint32
	_                                                  [8]byte
}

const (
	getSettings       = 0x801c581f // FS_IOC_FSGETXATTR
	flagPreallocated  = 0x2        // FS_XFLAG_PREALLOC
	getExtents        = 0xc020660b // FS_IOC_FIEMAP
	extentIsLast      = 0x1        // FIEMAP_EXTENT_LAST
	extentIsUnwritten = 0x800      // FIEMAP_EXTENT_UNWRITTEN
)

// minPreallocated is the preallocated space that deserves a warning. A file system may round less than that up.
const minPreallocated = 64 << 10

func readSettings(fd int) (s settings, err error) {
	return s, ioctl(fd, getSettings, unsafe.Pointer(&s))
}

func ioctl(fd int, request uintptr, argument unsafe.Pointer) error {
	return ignoringEINTR(func() error {
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(argument)); errno != 0 {
			return errno
		}
		return nil
	})
}

// hints returns the extent size hints.
func (s *settings) hints() [2]uint32 { return [2]uint32{s.extentSize, s.cowExtentSize} }

// noteLosses compares an open entry of the source with the source's root: entries inherit the settings of the root, and those are the
// volume's.
func (c *copier) noteLosses(fd int, path func() string) settings {
	if c.src.noSettings {
		return settings{}
	}
	s, err := readSettings(fd)
	if err == nil {
		c.noteLostSettings(&s, &c.src.settings, path)
	}
	return s
}

// noteRootLosses compares the roots. A target's root with a project of its own has the quota of the platform.
func (c *copier) noteRootLosses() {
	other := c.dst.settings
	if other.project != 0 {
		other.project = c.src.settings.project
	}
	c.noteLostSettings(&c.src.settings, &other, c.tree.top.path)
}

func (c *copier) noteLostSettings(s, other *settings, path func() string) {
	if s.project != 0 && s.project != other.project {
		c.problems.omit("the project id (chattr -p)", notCopied, path())
	}
	if s.hints() != [2]uint32{} && s.hints() != other.hints() {
		c.problems.omit("the extent size hint (xfs_io, extsize)", notCopied, path())
	}
}

// noteFileLosses is noteLosses for a regular file, which can also have preallocated space.
func (c *copier) noteFileLosses(fd int, st *unix.Stat_t, d *dir, e *entry) {
	path := func() string { return d.join(e.name) }
	s := c.noteLosses(fd, path)
	if st.Blocks*512 >= minPreallocated && c.isPreallocated(fd, st.Size, &s) {
		c.problems.omit("the preallocated space (fallocate)", notCopied, path())
	}
}

// extents is the struct fiemap with room for some extents.
type extents struct {
	start, length           uint64
	flags, mapped, count, _ uint32
	list                    [64]extent
}

type extent struct {
	from, physical, length uint64
	_                      [2]uint64
	flags                  uint32
	_                      [3]uint32
}

// isPreallocated reports whether an open file of the source has space that holds no data: beyond its end, or in ranges that were never
// written. xfs also allocates ahead of a writer, but marks the files that a process has preallocated. A file system that does not list
// extents has none.
func (c *copier) isPreallocated(fd int, size int64, s *settings) bool {
	if c.src.kind == unix.XFS_SUPER_MAGIC && s.flags&flagPreallocated == 0 {
		return false
	}
	empty := int64(0)
	m := extents{length: math.MaxUint64}
	for m.count = uint32(len(m.list)); ioctl(fd, getExtents, unsafe.Pointer(&m)) == nil && m.mapped > 0; {
		for _, x := range m.list[:m.mapped] {
			if empty += x.emptyBytes(fd, size); empty >= minPreallocated {
				return true
			}
			if x.flags&extentIsLast != 0 {
				return false
			}
			m.start = x.from + x.length
		}
	}
	return false
}

// emptyBytes returns how much of an extent holds no data. A range that is being written back is unwritten, too, but is not in a hole.
func (x *extent) emptyBytes(fd int, size int64) int64 {
	from, to := int64(x.from), int64(min(x.from+x.length, math.MaxInt64))
	empty := max(0, to-max(from, size))
	if x.flags&extentIsUnwritten != 0 && from < size {
		if data, _, err := seekData(fd, from, size); err == nil {
			empty += min(data, to, size) - from
		}
	}
	return empty
}
