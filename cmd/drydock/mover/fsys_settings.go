//go:build linux

package mover

import (
	"math"
	"unsafe"

	"golang.org/x/sys/unix"
)

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
