//go:build linux

package mover

import (
	"fmt"

	"golang.org/x/sys/unix"

	"drydock.dev/shared/moverreport"
)

// space is what statfs says of a file system, in bytes.
type space struct {
	used int64
	free int64 // to a process that is not root
	size int64 // that somebody who is not root can fill
}

func (r *root) space(hook func(*unix.Statfs_t)) (space, error) {
	var st unix.Statfs_t
	if err := againErr(func() error { return unix.Fstatfs(r.fd, &st) }); err != nil {
		return space{}, &fault{r.side, "asking for the size of the file system", "", err}
	}
	if hook != nil && r.side == target {
		hook(&st)
	}
	unit := st.Frsize
	if unit == 0 {
		unit = st.Bsize
	}
	s := space{used: int64(st.Blocks-st.Bfree) * unit, free: int64(st.Bavail) * unit}
	s.size = s.used + s.free
	return s, nil
}

// reserve is what has to stay free.
func (s space) reserve(percent int) int64 {
	return s.size/100*int64(percent) + s.size%100*int64(percent)/100
}

// roomBefore fails, before anything is written, if the target is too small for the source and a margin.
//
// What the source takes is the less of two numbers that both may be too high: its file system's used space has in it
// what is not of this tree (directories above it, deleted files that are still open, the metadata of a larger file
// system), and the sum of its files counts extents twice that files share.
func (c *copier) roomBefore() error {
	if c.margin <= 0 {
		return nil
	}
	src, err := c.src.space(nil)
	if err != nil {
		return err
	}
	dst, err := c.dst.space(c.hooks.room)
	if err != nil {
		return err
	}
	used := min(src.used, c.meter.bytesTotal.Load())
	if needed := used + dst.reserve(c.margin); needed > dst.size {
		return tooSmall("the source uses %d bytes; with a margin of %d%% %d bytes are needed, and the target has %d", used, c.margin, needed, dst.size)
	}
	return nil
}

// roomAfter fails if the margin was used up after all: by metadata, by what sharing or compressing did not save here.
func (c *copier) roomAfter() error {
	if c.margin <= 0 {
		return nil
	}
	dst, err := c.dst.space(c.hooks.room)
	if err != nil {
		return err
	}
	if needed := dst.used + dst.reserve(c.margin); needed > dst.size {
		return tooSmall("the copy uses %d bytes; with a margin of %d%% %d bytes are needed, and the target has %d", dst.used, c.margin, needed, dst.size)
	}
	return nil
}

func tooSmall(format string, args ...any) error {
	return &Error{Code: moverreport.CodeNoSpace, Reason: moverreport.ReasonNoSpace,
		Message: fmt.Sprintf(format, args...) + "; make it larger, then copy again"}
}
