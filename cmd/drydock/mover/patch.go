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
	c       *copier
	at      pair
	e       *entry
	in, out int
	units   *patchedUnits // nil without kept hashes that suffice
}

// patchedUnits holds the changes that a pass has made to a big file of the target with its kept hashes.
type patchedUnits struct {
	kept *keptHashes
	size int64 // of the source

	written     []atomic.Bool // units that were written, or whose layout changed
	want        []sum         // of the source's units; zero if the patch has not come to a unit
	targetAfter meta          // of the target's inode after the patch; zero if it is unknown
	done        bool          // the target has the contents of the source
}

const (
	patchSegment  = 64 * unitSize // what a goroutine works on at a time
	patchParallel = 4             // goroutines for a file
)

// openPatch opens the target of a big file. It returns -1 if the file has to be copied completely.
func (c *copier) openPatch(at pair, e *entry, g *group, in int) int {
	if !c.isBig(e) || at.dir.fresh {
		return -1
	}
	st, err := lstatat(at.dst, e.name)
	have := metaOf(&st)
	if err != nil || !have.isRegular() || st.Dev != c.dst.dev || !c.isOwnInode(&have, g) {
		return -1
	}
	out, err := openat(at.dst, e.name, unix.O_RDWR, 0)
	if err == unix.EACCES && named(at.dst, e.name).chmod(0o600) == nil { // allowed for its owner; the right mode is set at the end
		out, err = openat(at.dst, e.name, unix.O_RDWR, 0)
	}
	if err != nil {
		return -1
	}
	if c.flagsDiffer(c.src.flagsOf(in), c.dst.flagsOf(out)) {
		unix.Close(out)
		return -1
	}
	return out
}

// patchRegular makes the open target of a big file equal to the source. It returns whether it wrote anything.
func (c *copier) patchRegular(ctx context.Context, at pair, e *entry, in input, out int) (bool, error) {
	before := c.bytes.Load()
	p := &patch{c, at, e, in.fd, out, nil}
	p.useKept(c.keptFor(e, out))
	err := p.write(ctx)
	if err != nil {
		c.invalidateObject(opened(out), e)
	}
	if p.units != nil {
		if st, serr := fstat(out); serr == nil {
			p.units.targetAfter = metaOf(&st)
		}
	}
	if cerr := unix.Close(out); err == nil && cerr != nil && cerr != unix.EINTR {
		c.invalidate(at.dst, e)
		err = at.fault(target, "closing", e, cerr)
	}
	return c.bytes.Load() > before, err
}

// useKept has the patch use kept hashes if there are enough of them.
func (p *patch) useKept(k *keptHashes) {
	size := p.e.meta.size
	if k == nil || !k.suffices(size) {
		return
	}
	p.units = &patchedUnits{kept: k, size: size, written: make([]atomic.Bool, units(size)), want: make([]sum, units(size))}
	p.c.keeper.addPatch(p.e.meta.inode(), p.units)
}

// write takes the steps of writeTemp.
func (p *patch) write(ctx context.Context) error {
	c := p.c
	attrs, err := opened(p.in).xattrs(c.notCarried(p.at.dir, p.e.name))
	if err != nil {
		return p.at.fault(source, "reading extended attributes of", p.e, err)
	}
	if err := c.checkOwned(); err != nil {
		return err
	}
	if op, err := setOwner(opened(p.out), &p.e.meta); err != nil {
		return p.at.fault(target, op, p.e, err)
	}
	if err := cmp.Or(p.updateContents(ctx), c.checkOwned()); err != nil {
		return err
	}
	if op, err := setAttributes(opened(p.out), &p.e.meta, attrs); err != nil {
		return p.at.fault(target, op, p.e, err)
	}
	if op, err := checkAttributes(opened(p.out), &p.e.meta); err != nil {
		return p.at.fault(target, op, p.e, err)
	}
	if c.hooks.copying != nil {
		c.hooks.copying(p.at.dir.join(p.e.name))
	}
	_, err = c.checkUnchanged(p.at, p.e, p.in)
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
		err = cmp.Or(p.c.checkOwned(), ignoringEINTR(func() error { return unix.Ftruncate(p.out, size) }))
	}
	if err != nil {
		return p.at.fault(target, "setting the size of", p.e, err)
	}
	parallel := patchParallel
	if p.c.limit != nil {
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
		if err := p.c.checkOwned(); err != nil {
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
			return p.c.copyRun(ctx, p.at, p.e, run{p.in, p.out, from, to})
		}
		if err := p.eachRun(data, end, copyRun, func(int64, int64) error { return nil }); err != nil {
			return 0, err
		}
		off = end
	}
	return finished, nil
}

// wholeUnits returns the first unit that begins in a range, and the one after the last unit that ends in it.
func wholeUnits(from, to, size int64) (first, end int) {
	first, end = units(from), int(to/unitSize) // units rounds up
	if to == size {
		end = units(size)
	}
	return first, end
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

// mark notes that a range was written.
func (u *patchedUnits) mark(from, to int64) {
	for i := int(from / unitSize); u != nil && i < units(to); i++ {
		u.written[i].Store(true)
	}
}

// noteHole notes that the units of a range are in a hole of both sides. A unit with another kept hash is verified. Of a unit without a kept
// hash, the target was written only if it had data, and that is marked.
func (u *patchedUnits) noteHole(from, to int64) {
	if u == nil {
		return
	}
	for i, end := wholeUnits(from, to, u.size); i < end; i++ {
		u.want[i] = zerosOf(unitLength(u.size, i))
		if u.kept.holdsFor(i, u.size) && u.kept.sums[i] != u.want[i] {
			u.written[i].Store(true)
		}
	}
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
	p.c.meter.bytes.Add(n)
	if p.hasUnit(int(off/unitSize), want) {
		p.c.limit.wait(ctx, n)
		return nil
	}
	if err := readFull(p.out, have, off); err != nil {
		return p.at.fault(target, "reading", p.e, err)
	}
	if err := p.c.checkOwned(); err != nil { // the reads may have waited
		return err
	}
	p.units.mark(off, off+n)
	written, err := writeDiffering(p.out, want, have, off)
	p.c.bytes.Add(written)
	if err != nil {
		return p.at.fault(target, "writing", p.e, err)
	}
	if written > 0 && p.c.hooks.wrote != nil {
		p.c.hooks.wrote(p.at.dir.join(p.e.name), written)
	}
	p.c.limit.wait(ctx, 2*n+written)
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

// writeDiffering writes the blocks of want that differ from have, the contents at off. It returns the number of bytes
// written.
func writeDiffering(fd int, want, have []byte, off int64) (written int64, err error) {
	for len(want) > 0 {
		same, differ := differingRun(want, have)
		if differ == 0 {
			break
		}
		if err := writeFull(fd, want[same:same+differ], off+int64(same)); err != nil {
			return written, err
		}
		written += int64(differ)
		want, have, off = want[same+differ:], have[same+differ:], off+int64(same+differ)
	}
	return written, nil
}

func writeFull(fd int, buf []byte, off int64) error {
	for len(buf) > 0 {
		n, err := ignoringEINTRValue(func() (int, error) { return unix.Pwrite(fd, buf, off) })
		if err != nil {
			return err
		}
		buf, off = buf[n:], off+int64(n)
	}
	return nil
}

// verify reports whether the written units of the target equal the source's. It reads them from the device. All other units were
// read from the device by an earlier pass, and equal the source.
func (p *patchedUnits) verify(ctx context.Context, fd int) (bool, error) {
	err := p.eachWritten(ctx, fd, p.size, func(i int, have sum) error {
		if have != p.want[i] {
			return errMismatch
		}
		return nil
	})
	switch {
	case err == errMismatch:
		return false, nil
	case err != nil && ctx.Err() == nil:
		err = &sideError{target, err}
	}
	return err == nil, err
}

// rehash sets the hashes of the target after the flush. Units that were not written keep theirs.
func (p *patchedUnits) rehash(ctx context.Context, limit *Limiter, fd int, size int64, sums []sum) error {
	for i := range sums {
		switch {
		case p.kept.holdsFor(i, size):
			sums[i] = p.kept.sums[i]
		case i >= len(p.written):
			return errChanged
		case p.want[i] != zerosOf(unitLength(size, i)): // zeros that were not written are in a hole, see noteHole
			p.written[i].Store(true)
		}
	}
	return p.eachWritten(ctx, fd, size, func(i int, have sum) error {
		limit.wait(ctx, unitSize)
		sums[i] = have
		return nil
	})
}

func (p *patchedUnits) eachWritten(ctx context.Context, fd int, size int64, f func(i int, have sum) error) error {
	whole := buffers.Get()
	defer buffers.Put(whole)
	if err := dropPages(fd); err != nil {
		return err
	}
	ahead := 0
	for i := range p.written {
		if int64(i)*unitSize >= size {
			break
		}
		for ; ahead < len(p.written) && ahead < i+readAheadSize/unitSize; ahead++ {
			if p.written[ahead].Load() {
				_ = unix.Fadvise(fd, int64(ahead)*unitSize, unitSize, unix.FADV_WILLNEED)
			}
		}
		if !p.written[i].Load() {
			continue
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
		have := whole[:unitLength(size, i)]
		if err := readFull(fd, have, int64(i)*unitSize); err != nil {
			return err
		}
		if err := f(i, sha256.Sum256(have)); err != nil {
			return err
		}
	}
	return nil
}
