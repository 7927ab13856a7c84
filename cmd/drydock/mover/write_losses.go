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

// minPreallocated is the preallocated space that deserves a warning. A file system may round less than that up.
const minPreallocated = 64 << 10

// noteLosses compares an open entry of the source with the source's root: entries inherit the settings of the root, and those are the
// volume's.
func (p *flagPolicy) noteLosses(fd int, path func() string) settings {
	if p.src.noSettings {
		return settings{}
	}
	s, err := readSettings(fd)
	if err == nil {
		p.noteLostSettings(&s, &p.src.settings, path)
	}
	return s
}

// noteRootLosses compares the roots. A target's root with a project of its own has the quota of the platform.
func (p *flagPolicy) noteRootLosses() {
	other := p.dst.settings
	if other.project != 0 {
		other.project = p.src.settings.project
	}
	p.noteLostSettings(&p.src.settings, &other, p.tree.top.path)
}

func (p *flagPolicy) noteLostSettings(s, other *settings, path func() string) {
	if s.project != 0 && s.project != other.project {
		p.problems.omit("the project id (chattr -p)", notCopied, path())
	}
	if s.hints() != [2]uint32{} && s.hints() != other.hints() {
		p.problems.omit("the extent size hint (xfs_io, extsize)", notCopied, path())
	}
}

// noteFileLosses is noteLosses for a regular file, which can also have preallocated space.
func (p *flagPolicy) noteFileLosses(fd int, st *unix.Stat_t, d *dir, e *entry) {
	path := func() string { return d.join(e.name) }
	s := p.noteLosses(fd, path)
	if st.Blocks*512 >= minPreallocated && p.isPreallocated(fd, st.Size, &s) {
		p.problems.omit("the preallocated space (fallocate)", notCopied, path())
	}
}

// isPreallocated reports whether an open file of the source has space that holds no data: beyond its end, or in ranges that were never
// written. xfs also allocates ahead of a writer, but marks the files that a process has preallocated. A file system that does not list
// extents has none.
func (p *flagPolicy) isPreallocated(fd int, size int64, s *settings) bool {
	if p.src.kind == unix.XFS_SUPER_MAGIC && s.flags&flagPreallocated == 0 {
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
