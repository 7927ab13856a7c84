//go:build linux

package mover

import (
	"fmt"

	"drydock.dev/shared/moverreport"
	"golang.org/x/sys/unix"
)

// space is the size of a file system in bytes, as statfs reports it.
type space struct {
	used int64
	free int64 // for a process without root's rights
	size int64 // usable without root's rights
}

func (r *root) space(hook func(*unix.Statfs_t)) (space, error) {
	var st unix.Statfs_t
	if err := ignoringEINTR(func() error { return unix.Fstatfs(r.fd, &st) }); err != nil {
		return space{}, newFault(r.side, "asking for the size of the file system", "", err)
	}
	if hook != nil {
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

// reserve returns how many bytes must stay free.
func (s space) reserve(percent int) int64 {
	return s.size/100*int64(percent) + s.size%100*int64(percent)/100
}

// checkSpaceBefore fails before anything is written if the target is too small for the source and the margin.
//
// The source's size is the smaller of two numbers that may both be too high. The used space of its file system includes
// data outside the tree: directories above it, deleted files that are still open, and the metadata of a larger file
// system. The sum of its files counts shared extents twice.
func (o *owner) checkSpaceBefore() error {
	if o.margin <= 0 {
		return nil
	}
	src, err := o.src.space(nil)
	if err != nil {
		return err
	}
	dst, err := o.dst.space(o.seams.TargetSize)
	if err != nil {
		return err
	}
	used := min(src.used, o.meter.bytesTotal.Load())
	if needed := used + dst.reserve(o.margin); needed > dst.size {
		return tooSmall("the source uses %s; with a margin of %d%%, %s are needed, and the target has %s",
			moverreport.Size(used), o.margin, moverreport.Size(needed), moverreport.Size(dst.size))
	}
	return nil
}

// checkSpaceAfter fails if the copy used up the margin nevertheless: metadata needs space, and the target may not share
// or compress like the source.
func (o *owner) checkSpaceAfter() error {
	if o.margin <= 0 {
		return nil
	}
	dst, err := o.dst.space(o.seams.TargetSize)
	if err != nil {
		return err
	}
	if needed := dst.used + dst.reserve(o.margin); needed > dst.size {
		return tooSmall("the copy uses %s; with a margin of %d%%, %s are needed, and the target has %s",
			moverreport.Size(dst.used), o.margin, moverreport.Size(needed), moverreport.Size(dst.size))
	}
	return nil
}

func tooSmall(format string, args ...any) error {
	return &Error{Code: moverreport.CodeNoSpace, Reason: moverreport.ReasonNoSpace,
		Message: fmt.Sprintf(format, args...)}
}
