//go:build linux

package write

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/fault"
	"drydock.dev/cmd/drydock/mover/fsys"
	"drydock.dev/cmd/drydock/mover/pool"
	"drydock.dev/cmd/drydock/mover/tree"
	"drydock.dev/cmd/drydock/mover/units"
)

// patch makes a big file of the target equal to the source, under its own name. It works on segments, several at once. In each segment it
// first makes the holes and allocates the data. Then it reads each unit of the source that is not in a hole. A unit whose hash is the kept
// one of the target is equal. Any other unit is read in the target, and the blocks that differ are written.
type patch struct {
	w       *Contents
	at      tree.Pair
	e       *tree.Entry
	in, out int
	units   *units.Patch // nil without kept hashes that suffice
}

const (
	patchSegment  = 64 * units.Size // what a goroutine works on at a time
	patchParallel = 4               // goroutines for a file
)

// errUnreadable says that the target of a patch has a block that cannot be read. A new file gets other blocks.
var errUnreadable = errors.New("a new copy is needed")

// openPatch opens the target of a big file. It returns -1 if the file has to be copied completely.
func (w *Files) openPatch(at tree.Pair, e *tree.Entry, g *tree.Group, in int) int {
	if !w.IsBig(e) || at.Dir.Fresh {
		return -1
	}
	st, err := fsys.StatEntry(at.Dst, e.Name)
	have := fsys.MetaOf(&st.Stat_t)
	if err != nil || !have.IsRegular() || st.Dev != w.Dst.Dev || w.Dst.IsElsewhere(&st) || !w.Links.isOwnInode(&have, g) {
		return -1
	}
	out, err := fsys.Openat(at.Dst, e.Name, unix.O_RDWR, 0)
	if err == unix.EACCES && fsys.Named(at.Dst, e.Name).Chmod(0o600) == nil { // allowed for its owner; the right mode is set at the end
		out, err = fsys.Openat(at.Dst, e.Name, unix.O_RDWR, 0)
	}
	if err != nil {
		return -1
	}
	if w.Flags.flagsDiffer(w.Src.FlagsOf(in), w.Dst.FlagsOf(out)) {
		unix.Close(out)
		return -1
	}
	return out
}

// patchRegular makes the open target of a big file equal to the source. It returns whether it wrote anything.
func (w *Files) patchRegular(ctx context.Context, at tree.Pair, e *tree.Entry, in fsys.Input, out int) (bool, error) {
	before := w.Done.Bytes.Load()
	p := &patch{w.Content, at, e, in.Fd, out, nil}
	if p.useKept(w.keptFor(e, out)) {
		w.Keeper.AddPatch(e.Meta.Inode(), p.units)
	}
	err := p.write(ctx)
	if err != nil {
		w.Own.InvalidateObject(fsys.Opened(out), e)
	}
	if p.units != nil {
		if st, serr := fsys.Fstat(out); serr == nil {
			p.units.TargetAfter = fsys.MetaOf(&st)
		}
	}
	if cerr := unix.Close(out); err == nil && cerr != nil && cerr != unix.EINTR {
		w.Own.Invalidate(at.Dst, e)
		err = at.Fault(fault.Target, "closing", e, cerr)
	}
	return w.Done.Bytes.Load() > before, err
}

// keptFor returns the kept hashes of an open file of the target, or nil if its inode has changed or a patch has used them.
func (w *Files) keptFor(e *tree.Entry, out int) *units.KeptHashes {
	if w.Kept == nil || !w.Trust.Usable || w.Trust.IsInSubvolume(&e.Meta) {
		return nil
	}
	k := w.Kept[e.Meta.Inode()]
	if k == nil || k.Used.Swap(true) {
		return nil
	}
	st, err := fsys.Fstat(out)
	if err != nil || fsys.MetaOf(&st) != k.Meta {
		return nil
	}
	return k
}

// useKept has the patch use kept hashes if there are enough of them. It reports whether it does.
func (p *patch) useKept(k *units.KeptHashes) bool {
	size := p.e.Meta.Size
	if k == nil || !k.Suffices(size) {
		return false
	}
	p.units = &units.Patch{Kept: k, Size: size, Written: make([]atomic.Bool, units.Count(size)), Want: make([]units.Sum, units.Count(size))}
	return true
}

// write takes the steps of writeTemp.
func (p *patch) write(ctx context.Context) error {
	w := p.w
	attrs, err := fsys.Opened(p.in).Xattrs(w.notCarried(p.at.Dir, p.e.Name))
	if err != nil {
		return p.at.Fault(fault.Source, "reading extended attributes of", p.e, err)
	}
	if err := w.Own.CheckOwned(); err != nil {
		return err
	}
	if op, err := fsys.SetOwner(fsys.Opened(p.out), &p.e.Meta); err != nil {
		return p.at.Fault(fault.Target, op, p.e, err)
	}
	if err := cmp.Or(p.updateContents(ctx), w.Own.CheckOwned()); err != nil {
		return err
	}
	if op, err := fsys.SetAttributes(fsys.Opened(p.out), &p.e.Meta, attrs); err != nil {
		return p.at.Fault(fault.Target, op, p.e, err)
	}
	if op, err := fsys.CheckAttributes(fsys.Opened(p.out), &p.e.Meta); err != nil {
		return p.at.Fault(fault.Target, op, p.e, err)
	}
	w.Seams.FileCopied(p.at.Dir, p.e.Name)
	_, err = w.checkUnchanged(p.at, p.e, p.in)
	if p.units != nil {
		p.units.Done = err == nil && !slices.Contains(p.units.Want, units.Sum{})
	}
	return err
}

// updateContents sets the size and updates all segments.
func (p *patch) updateContents(ctx context.Context) error {
	size := p.e.Meta.Size
	st, err := fsys.Fstat(p.out)
	if err == nil && st.Size != size {
		err = cmp.Or(p.w.Own.CheckOwned(), fsys.IgnoringEINTR(func() error { return unix.Ftruncate(p.out, size) }))
	}
	if err != nil {
		return p.at.Fault(fault.Target, "setting the size of", p.e, err)
	}
	parallel := patchParallel
	if p.w.Limit != nil {
		parallel = 1
	}
	return pool.Run(ctx, parallel, func(pool *pool.Pool) { pool.Add(p.segment(pool, 0)) })
}

// segment returns the task that updates the segment at an offset. First it adds the task of the next segment with data on either side: a
// sparse file may have more segments than memory, or time, has room for.
func (p *patch) segment(pool *pool.Pool, from int64) pool.Task {
	return func(ctx context.Context) error {
		to := from + min(patchSegment, p.e.Meta.Size-from)
		next, err := p.nextSegment(to)
		if err != nil {
			return err
		}
		p.units.NoteHole(to, next)
		if next < p.e.Meta.Size {
			pool.Add(p.segment(pool, next))
		}
		finished, err := p.updateLayout(ctx, from, to)
		if err != nil {
			return err
		}
		return p.updateData(ctx, from, to, finished)
	}
}

// nextSegment returns the offset of the first segment at or after off that has data on either side, or the size.
func (p *patch) nextSegment(off int64) (int64, error) {
	size := p.e.Meta.Size
	if off >= size {
		return size, nil
	}
	in, _, err := fsys.SeekData(p.in, off, size)
	if err != nil {
		return 0, p.at.Fault(fault.Source, "reading", p.e, err)
	}
	out, _, err := fsys.SeekData(p.out, off, size)
	if err != nil {
		return 0, p.at.Fault(fault.Target, "reading", p.e, err)
	}
	if next := min(in, out); next < size {
		return next / patchSegment * patchSegment, nil
	}
	return size, nil
}

// updateLayout makes holes in a segment where the source has some, and allocates data where the target has a hole. It does not read the
// target. It returns a bit for each unit that needs no more work: it is in a hole of both sides, or was copied and has no hash to compute.
//
// A preallocated range may be in memory, and so data, when the source is searched, and a hole later. Its units have no bit, so they are
// read.
func (p *patch) updateLayout(ctx context.Context, from, to int64) (finished uint64, err error) {
	finish := func(begin, end int64) {
		for i, last := units.WholeUnits(begin, end, p.e.Meta.Size); i < last; i++ {
			finished |= 1 << (int64(i) - from/units.Size)
		}
	}
	for off := from; off < to; {
		data, end, err := fsys.SeekData(p.in, off, to)
		if err != nil {
			return 0, p.at.Fault(fault.Source, "reading", p.e, err)
		}
		if err := p.w.Own.CheckOwned(); err != nil {
			return 0, err
		}
		isHole := true
		err = p.eachRun(off, data, nil, func(from, to int64) error {
			made, err := p.punchHole(from, to)
			isHole = isHole && made
			return err
		})
		if err != nil {
			return 0, err
		}
		if isHole {
			finish(off, data)
			p.units.NoteHole(off, data)
		}
		copyRun := func(from, to int64) error {
			p.units.Mark(from, to)
			if p.units == nil {
				finish(from, to)
			}
			return p.w.copyRun(ctx, p.at, p.e, run{p.in, p.out, from, to})
		}
		if err := p.eachRun(data, end, copyRun, func(int64, int64) error { return nil }); err != nil {
			return 0, err
		}
		off = end
	}
	return finished, nil
}

// eachRun calls hole and data for the target's holes and runs of data in a range.
func (p *patch) eachRun(from, to int64, hole, data func(from, to int64) error) error {
	for off := from; off < to; {
		begin, end, err := fsys.SeekData(p.out, off, to)
		if err != nil {
			return p.at.Fault(fault.Target, "reading", p.e, err)
		}
		if off < begin && hole != nil {
			if err := hole(off, begin); err != nil {
				return err
			}
		}
		if begin < end {
			if err := data(begin, end); err != nil {
				return err
			}
		}
		off = end
	}
	return nil
}

// punchHole makes a hole where the source has one. It returns false if the target cannot have holes: then its data is compared.
func (p *patch) punchHole(from, to int64) (bool, error) {
	const mode = unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE
	p.units.Mark(from, to)
	err := fsys.IgnoringEINTR(func() error { return unix.Fallocate(p.out, mode, from, to-from) })
	if fault.IsAny(err, unix.EOPNOTSUPP, unix.ENOSYS) {
		return false, nil
	}
	if err != nil {
		return false, p.at.Fault(fault.Target, "making a hole in", p.e, err)
	}
	return true, nil
}

// updateData updates the units of a segment that are not finished.
func (p *patch) updateData(ctx context.Context, from, to int64, finished uint64) error {
	both := [2]*[fsys.BufferSize]byte{fsys.Buffers.Get(), fsys.Buffers.Get()}
	defer fsys.Buffers.Put(both[fault.Source])
	defer fsys.Buffers.Put(both[fault.Target])
	isFinished := func(i int) bool { return finished>>i&1 != 0 }
	ahead := 0 // the units before this one were read ahead
	for i := range units.Count(to - from) {
		if isFinished(i) {
			continue
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
		off := from + int64(i)*units.Size
		if i >= ahead {
			for ahead = i + 1; ahead < units.Count(to-from) && !isFinished(ahead); ahead++ {
			}
			p.readAhead(off, min(int64(ahead-i)*units.Size, to-off))
		}
		n := min(units.Size, to-off)
		if err := p.updateUnit(ctx, off, both[fault.Source][:n], both[fault.Target][:n]); err != nil {
			return err
		}
	}
	return nil
}

// ReadAhead asks the kernel to read a run of n bytes. A failure does not matter.
func (p *patch) readAhead(off, n int64) {
	if n <= fsys.BufferSize {
		return
	}
	_ = unix.Fadvise(p.in, off, n, unix.FADV_WILLNEED)
	if p.units == nil {
		_ = unix.Fadvise(p.out, off, n, unix.FADV_WILLNEED)
	}
}

// updateUnit makes a unit of the target equal. want and have are its buffers.
func (p *patch) updateUnit(ctx context.Context, off int64, want, have []byte) error {
	if err := fsys.ReadFull(p.in, want, off); err != nil {
		return p.at.Fault(fault.Source, "reading", p.e, err)
	}
	n := int64(len(want))
	p.w.Meter.Bytes.Add(n)
	if p.hasUnit(int(off/units.Size), want) {
		p.w.Limit.Wait(ctx, n)
		return nil
	}
	if err := fsys.ReadFull(p.out, have, off); err != nil {
		return p.at.Fault(fault.Target, "reading", p.e, fmt.Errorf("%w: %w", errUnreadable, err))
	}
	if err := p.w.Own.CheckOwned(); err != nil { // the reads may have waited
		return err
	}
	p.units.Mark(off, off+n)
	written, err := units.WriteDiffering(p.out, want, have, off)
	p.w.Done.Bytes.Add(written)
	if err != nil {
		return p.at.Fault(fault.Target, "writing", p.e, err)
	}
	if written > 0 {
		p.w.Seams.FileWritten(p.at.Dir, p.e.Name, written)
	}
	p.w.Limit.Wait(ctx, 2*n+written)
	return nil
}

// hasUnit reports whether the kept hashes say that the target has a unit. It notes the hash of the unit.
func (p *patch) hasUnit(i int, want []byte) bool {
	u := p.units
	if u == nil {
		return false
	}
	u.Want[i] = sha256.Sum256(want)
	return !u.Written[i].Load() && u.Kept.HoldsFor(i, u.Size) && u.Want[i] == u.Kept.Sums[i]
}
