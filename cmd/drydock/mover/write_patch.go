//go:build linux

package mover

import (
	"cmp"
	"context"
	"crypto/sha256"
	"slices"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// patch makes a big file of the target equal to the source, under its own name. It works on segments, several at once. In each segment it
// first makes the holes and allocates the data. Then it reads each unit of the source that is not in a hole. A unit whose hash is the kept
// one of the target is equal. Any other unit is read in the target, and the blocks that differ are written.
type patch struct {
	w       *contentWriter
	at      pair
	e       *entry
	in, out int
	units   *patchedUnits // nil without kept hashes that suffice
}

const (
	patchSegment  = 64 * unitSize // what a goroutine works on at a time
	patchParallel = 4             // goroutines for a file
)

// openPatch opens the target of a big file. It returns -1 if the file has to be copied completely.
func (w *fileWriter) openPatch(at pair, e *entry, g *group, in int) int {
	if !w.isBig(e) || at.dir.fresh {
		return -1
	}
	st, err := lstatat(at.dst, e.name)
	have := metaOf(&st)
	if err != nil || !have.isRegular() || st.Dev != w.dst.dev || !w.links.isOwnInode(&have, g) {
		return -1
	}
	out, err := openat(at.dst, e.name, unix.O_RDWR, 0)
	if err == unix.EACCES && named(at.dst, e.name).chmod(0o600) == nil { // allowed for its owner; the right mode is set at the end
		out, err = openat(at.dst, e.name, unix.O_RDWR, 0)
	}
	if err != nil {
		return -1
	}
	if w.flags.flagsDiffer(w.src.flagsOf(in), w.dst.flagsOf(out)) {
		unix.Close(out)
		return -1
	}
	return out
}

// patchRegular makes the open target of a big file equal to the source. It returns whether it wrote anything.
func (w *fileWriter) patchRegular(ctx context.Context, at pair, e *entry, in input, out int) (bool, error) {
	before := w.done.bytes.Load()
	p := &patch{w.content, at, e, in.fd, out, nil}
	if p.useKept(w.keptFor(e, out)) {
		w.keeper.addPatch(e.meta.inode(), p.units)
	}
	err := p.write(ctx)
	if err != nil {
		w.own.invalidateObject(opened(out), e)
	}
	if p.units != nil {
		if st, serr := fstat(out); serr == nil {
			p.units.targetAfter = metaOf(&st)
		}
	}
	if cerr := unix.Close(out); err == nil && cerr != nil && cerr != unix.EINTR {
		w.own.invalidate(at.dst, e)
		err = at.fault(target, "closing", e, cerr)
	}
	return w.done.bytes.Load() > before, err
}

// keptFor returns the kept hashes of an open file of the target, or nil if its inode has changed or a patch has used them.
func (w *fileWriter) keptFor(e *entry, out int) *keptHashes {
	if w.kept == nil || !w.trust.usable || w.trust.isInSubvolume(&e.meta) {
		return nil
	}
	k := w.kept[e.meta.inode()]
	if k == nil || k.used.Swap(true) {
		return nil
	}
	st, err := fstat(out)
	if err != nil || metaOf(&st) != k.meta {
		return nil
	}
	return k
}

// useKept has the patch use kept hashes if there are enough of them. It reports whether it does.
func (p *patch) useKept(k *keptHashes) bool {
	size := p.e.meta.size
	if k == nil || !k.suffices(size) {
		return false
	}
	p.units = &patchedUnits{kept: k, size: size, written: make([]atomic.Bool, units(size)), want: make([]sum, units(size))}
	return true
}

// write takes the steps of writeTemp.
func (p *patch) write(ctx context.Context) error {
	w := p.w
	attrs, err := opened(p.in).xattrs(w.notCarried(p.at.dir, p.e.name))
	if err != nil {
		return p.at.fault(source, "reading extended attributes of", p.e, err)
	}
	if err := w.own.checkOwned(); err != nil {
		return err
	}
	if op, err := setOwner(opened(p.out), &p.e.meta); err != nil {
		return p.at.fault(target, op, p.e, err)
	}
	if err := cmp.Or(p.updateContents(ctx), w.own.checkOwned()); err != nil {
		return err
	}
	if op, err := setAttributes(opened(p.out), &p.e.meta, attrs); err != nil {
		return p.at.fault(target, op, p.e, err)
	}
	if op, err := checkAttributes(opened(p.out), &p.e.meta); err != nil {
		return p.at.fault(target, op, p.e, err)
	}
	w.seams.FileCopied(p.at.dir, p.e.name)
	_, err = w.checkUnchanged(p.at, p.e, p.in)
	if p.units != nil {
		p.units.done = err == nil && !slices.Contains(p.units.want, sum{})
	}
	return err
}

// updateContents sets the size and updates all segments.
func (p *patch) updateContents(ctx context.Context) error {
	size := p.e.meta.size
	st, err := fstat(p.out)
	if err == nil && st.Size != size {
		err = cmp.Or(p.w.own.checkOwned(), ignoringEINTR(func() error { return unix.Ftruncate(p.out, size) }))
	}
	if err != nil {
		return p.at.fault(target, "setting the size of", p.e, err)
	}
	parallel := patchParallel
	if p.w.limit != nil {
		parallel = 1
	}
	return runPool(ctx, parallel, func(pool *pool) { pool.add(p.segment(pool, 0)) })
}

// segment returns the task that updates the segment at an offset. First it adds the task of the next segment with data on either side: a
// sparse file may have more segments than memory, or time, has room for.
func (p *patch) segment(pool *pool, from int64) task {
	return func(ctx context.Context) error {
		to := from + min(patchSegment, p.e.meta.size-from)
		next, err := p.nextSegment(to)
		if err != nil {
			return err
		}
		p.units.noteHole(to, next)
		if next < p.e.meta.size {
			pool.add(p.segment(pool, next))
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
	size := p.e.meta.size
	if off >= size {
		return size, nil
	}
	in, _, err := seekData(p.in, off, size)
	if err != nil {
		return 0, p.at.fault(source, "reading", p.e, err)
	}
	out, _, err := seekData(p.out, off, size)
	if err != nil {
		return 0, p.at.fault(target, "reading", p.e, err)
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
		for i, last := wholeUnits(begin, end, p.e.meta.size); i < last; i++ {
			finished |= 1 << (int64(i) - from/unitSize)
		}
	}
	for off := from; off < to; {
		data, end, err := seekData(p.in, off, to)
		if err != nil {
			return 0, p.at.fault(source, "reading", p.e, err)
		}
		if err := p.w.own.checkOwned(); err != nil {
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
			p.units.noteHole(off, data)
		}
		copyRun := func(from, to int64) error {
			p.units.mark(from, to)
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
		begin, end, err := seekData(p.out, off, to)
		if err != nil {
			return p.at.fault(target, "reading", p.e, err)
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
	p.units.mark(from, to)
	err := ignoringEINTR(func() error { return unix.Fallocate(p.out, mode, from, to-from) })
	if isAny(err, unix.EOPNOTSUPP, unix.ENOSYS) {
		return false, nil
	}
	if err != nil {
		return false, p.at.fault(target, "making a hole in", p.e, err)
	}
	return true, nil
}

// updateData updates the units of a segment that are not finished.
func (p *patch) updateData(ctx context.Context, from, to int64, finished uint64) error {
	both := [2]*[bufferSize]byte{buffers.Get(), buffers.Get()}
	defer buffers.Put(both[source])
	defer buffers.Put(both[target])
	isFinished := func(i int) bool { return finished>>i&1 != 0 }
	ahead := 0 // the units before this one were read ahead
	for i := range units(to - from) {
		if isFinished(i) {
			continue
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
		off := from + int64(i)*unitSize
		if i >= ahead {
			for ahead = i + 1; ahead < units(to-from) && !isFinished(ahead); ahead++ {
			}
			p.readAhead(off, min(int64(ahead-i)*unitSize, to-off))
		}
		n := min(unitSize, to-off)
		if err := p.updateUnit(ctx, off, both[source][:n], both[target][:n]); err != nil {
			return err
		}
	}
	return nil
}

// readAhead asks the kernel to read a run of n bytes. A failure does not matter.
func (p *patch) readAhead(off, n int64) {
	if n <= bufferSize {
		return
	}
	_ = unix.Fadvise(p.in, off, n, unix.FADV_WILLNEED)
	if p.units == nil {
		_ = unix.Fadvise(p.out, off, n, unix.FADV_WILLNEED)
	}
}

// updateUnit makes a unit of the target equal. want and have are its buffers.
func (p *patch) updateUnit(ctx context.Context, off int64, want, have []byte) error {
	if err := readFull(p.in, want, off); err != nil {
		return p.at.fault(source, "reading", p.e, err)
	}
	n := int64(len(want))
	p.w.meter.bytes.Add(n)
	if p.hasUnit(int(off/unitSize), want) {
		p.w.limit.wait(ctx, n)
		return nil
	}
	if err := readFull(p.out, have, off); err != nil {
		return p.at.fault(target, "reading", p.e, err)
	}
	if err := p.w.own.checkOwned(); err != nil { // the reads may have waited
		return err
	}
	p.units.mark(off, off+n)
	written, err := writeDiffering(p.out, want, have, off)
	p.w.done.bytes.Add(written)
	if err != nil {
		return p.at.fault(target, "writing", p.e, err)
	}
	if written > 0 {
		p.w.seams.FileWritten(p.at.dir, p.e.name, written)
	}
	p.w.limit.wait(ctx, 2*n+written)
	return nil
}

// hasUnit reports whether the kept hashes say that the target has a unit. It notes the hash of the unit.
func (p *patch) hasUnit(i int, want []byte) bool {
	u := p.units
	if u == nil {
		return false
	}
	u.want[i] = sha256.Sum256(want)
	return !u.written[i].Load() && u.kept.holdsFor(i, u.size) && u.want[i] == u.kept.sums[i]
}
