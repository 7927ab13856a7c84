//go:build linux

package mover

import (
	"cmp"
	"context"

	"golang.org/x/sys/unix"
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
	p := patch{c, at, e, in.fd, out, ctx}
	units := p.withUnits(c.keptFor(e, out))
	err := c.writePatch(p, units)
	if err != nil {
		c.invalidateObject(opened(out), e)
	}
	units.noteTarget()
	if cerr := unix.Close(out); err == nil && cerr != nil && cerr != unix.EINTR {
		c.invalidate(at.dst, e)
		err = at.fault(target, "closing", e, cerr)
	}
	return c.bytes.Load() > before, err
}

// writePatch takes the steps of writeTemp.
func (c *copier) writePatch(p patch, units *unitPatch) error {
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
	if err := cmp.Or(p.updateContents(units), c.checkOwned()); err != nil {
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
	if _, err = c.checkUnchanged(p.at, p.e, p.in); err == nil && units != nil {
		units.done = units.isComplete()
	}
	return err
}

// updateContents writes the blocks that differ. With units it reads few of them in the target; without, it compares the file
// in segments.
func (p patch) updateContents(units *unitPatch) error {
	if err := p.c.checkOwned(); err != nil {
		return err
	}
	size := p.e.meta.size
	st, err := fstat(p.out)
	if err == nil && st.Size != size {
		err = ignoringEINTR(func() error { return unix.Ftruncate(p.out, size) })
	}
	if err != nil {
		return p.at.fault(target, "setting the size of", p.e, err)
	}
	if units != nil {
		return units.updateUnits()
	}
	parallel := patchParallel
	if p.c.limit != nil {
		parallel = 1
	}
	return runPool(p.ctx, parallel, func(pool *pool) { pool.add(p.segment(pool, 0)) })
}

// segment returns the task that updates the segment at an offset. First it adds the task of the next segment with data on either side: a
// sparse file may have more segments than memory, or time, has room for.
func (p patch) segment(pool *pool, from int64) task {
	return func(ctx context.Context) error {
		to := from + min(patchSegment, p.e.meta.size-from)
		next, err := p.nextSegment(to)
		if err != nil {
			return err
		}
		if next < p.e.meta.size {
			pool.add(p.segment(pool, next))
		}
		mine := p
		mine.ctx = ctx
		return mine.updateSegment(from, to)
	}
}

// nextSegment returns the offset of the first segment at or after off that has data on either side, or the size.
func (p patch) nextSegment(off int64) (int64, error) {
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

// updateSegment visits the source's runs of data and holes.
func (p patch) updateSegment(from, to int64) error {
	for off := from; off < to; {
		data, end, err := seekData(p.in, off, to)
		if err != nil {
			return p.at.fault(source, "reading", p.e, err)
		}
		if err := p.c.checkOwned(); err != nil {
			return err
		}
		if err := p.punchHole(off, data); err != nil {
			return err
		}
		if err := p.updateData(data, end); err != nil {
			return err
		}
		off = end
	}
	return nil
}

// eachRun calls hole and data for the target's holes and runs of data in a range.
func (p patch) eachRun(from, to int64, hole, data func(from, to int64) error) error {
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

// punchHole makes a hole where the source has one.
func (p patch) punchHole(from, to int64) error {
	return p.eachRun(from, to, nil, func(from, to int64) error {
		const mode = unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE
		err := ignoringEINTR(func() error { return unix.Fallocate(p.out, mode, from, to-from) })
		if isAny(err, unix.EOPNOTSUPP, unix.ENOSYS) {
			return p.compare(from, to) // the source reads as zeros here
		}
		if err != nil {
			return p.at.fault(target, "making a hole in", p.e, err)
		}
		return nil
	})
}

// updateData copies where the target has a hole, and compares where it has data.
func (p patch) updateData(from, to int64) error {
	hole := func(from, to int64) error { return p.c.copyRun(p.ctx, p.at, p.e, run{p.in, p.out, from, to}) }
	return p.eachRun(from, to, hole, p.compare)
}

// compare reads a range on both sides and writes the blocks that differ.
func (p patch) compare(from, to int64) error {
	both := [2]*[bufferSize]byte{buffers.Get(), buffers.Get()}
	defer buffers.Put(both[0])
	defer buffers.Put(both[1])
	nextIn, nextOut := readAhead{p.in, from, to}, readAhead{p.out, from, to}
	for off := from; off < to; {
		if err := context.Cause(p.ctx); err != nil {
			return err
		}
		nextIn.advance(off)
		nextOut.advance(off)
		n := min(bufferSize, to-off)
		want, have := both[source][:n], both[target][:n]
		if err := readFull(p.in, want, off); err != nil {
			return p.at.fault(source, "reading", p.e, err)
		}
		if err := readFull(p.out, have, off); err != nil {
			return p.at.fault(target, "reading", p.e, err)
		}
		if err := p.c.checkOwned(); err != nil { // the reads may have waited
			return err
		}
		written, err := writeDiffering(p.out, want, have, off)
		p.c.bytes.Add(written)
		if err != nil {
			return p.at.fault(target, "writing", p.e, err)
		}
		p.c.meter.bytes.Add(n)
		if written > 0 && p.c.hooks.wrote != nil {
			p.c.hooks.wrote(p.at.dir.join(p.e.name), written)
		}
		p.c.limit.wait(p.ctx, 2*n+written)
		off += n
	}
	return nil
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

// patchSegment is how much of a big file one goroutine compares. patchParallel is the number of such goroutines per file.
const (
	patchSegment  = 16 << 20
	patchParallel = 4
)

// patch updates a big file that exists in the target.
type patch struct {
	c       *copier
	at      pair
	e       *entry
	in, out int
	ctx     context.Context
}
