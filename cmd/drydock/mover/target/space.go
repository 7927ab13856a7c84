//go:build linux

package target

import (
	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/fault"
	"drydock.dev/cmd/drydock/mover/fsys"
	"drydock.dev/shared/moverreport"
)

// Space is the size of a file system in bytes, as statfs reports it.
type Space struct {
	used int64
	free int64 // for a process without root's rights
	Size int64 // usable without root's rights
}

func spaceOf(r *fsys.Root, hook func(*unix.Statfs_t)) (Space, error) {
	st, err := r.Statfs()
	if err != nil {
		return Space{}, fault.New(r.Side, "asking for the size of the file system", "", err)
	}
	if hook != nil {
		hook(&st)
	}
	unit := st.Frsize
	if unit == 0 {
		unit = st.Bsize
	}
	s := Space{used: int64(st.Blocks-st.Bfree) * unit, free: int64(st.Bavail) * unit}
	s.Size = s.used + s.free
	return s, nil
}

// Reserve returns how many bytes must stay free.
func (s Space) Reserve(percent int) int64 {
	return s.Size/100*int64(percent) + s.Size%100*int64(percent)/100
}

// CheckSpaceBefore fails before anything is written if the target is too small for the source and the margin.
//
// The source's size is the smaller of two numbers that may both be too high. The used space of its file system includes
// data outside the tree: directories above it, deleted files that are still open, and the metadata of a larger file
// system. The sum of its files counts shared extents twice.
func (o *Owner) CheckSpaceBefore() error {
	if o.Margin <= 0 {
		return nil
	}
	src, err := spaceOf(o.Src, nil)
	if err != nil {
		return err
	}
	dst, err := spaceOf(o.Dst, o.Seams.TargetSize)
	if err != nil {
		return err
	}
	used := min(src.used, o.Meter.BytesTotal.Load())
	if needed := used + dst.Reserve(o.Margin); needed > dst.Size {
		return fault.TooSmall("the source uses %s; with a margin of %d%%, %s are needed, and the target has %s",
			moverreport.Size(used), o.Margin, moverreport.Size(needed), moverreport.Size(dst.Size))
	}
	return nil
}

// CheckSpaceAfter fails if the copy used up the margin nevertheless: metadata needs space, and the target may not share
// or compress like the source.
func (o *Owner) CheckSpaceAfter() error {
	if o.Margin <= 0 {
		return nil
	}
	dst, err := spaceOf(o.Dst, o.Seams.TargetSize)
	if err != nil {
		return err
	}
	if needed := dst.used + dst.Reserve(o.Margin); needed > dst.Size {
		return fault.TooSmall("the copy uses %s; with a margin of %d%%, %s are needed, and the target has %s",
			moverreport.Size(dst.used), o.Margin, moverreport.Size(needed), moverreport.Size(dst.Size))
	}
	return nil
}
