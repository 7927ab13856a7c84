//go:build linux

package mover

import (
	"context"

	"golang.org/x/sys/unix"
)

// patchLeast is the size from which a file is big. Between two passes, only the differing blocks of a big file are written, under
// its name. A run that dies leaves a file that is neither old nor new. The next run finds it: its time is set last, and no record
// knows its inode in that state.
const patchLeast = 1 << 20

// patchSegment is how much of a big file one goroutine compares, patchParallel how many of them there are for a file.
const (
	patchSegment  = 16 << 20
	patchParallel = 4
)

// patch is a big file whose target is there.
type patch struct {
	c       *copier
	at      pair
	e       *entry
	in, out int
	ctx     context.Context
}

// isBig reports whether a file is treated by blocks.
func (c *copier) isBig(e *entry) bool {
	return c.pass != PassWhole && e.meta.isRegular() && e.meta.size >= patchLeast
}

// openPatch opens the target of a big file. It returns -1 if the file has to be copied whole.
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
	if err == unix.EACCES && named(at.dst, e.name).chmod(0o600) == nil { // its owner may; the right mode is set in the end
		out, err = openat(at.dst, e.name, unix.O_RDWR, 0)
	}
	if err != nil {
		return -1
	}
	if c.dst.flagsOf(out) != c.src.flagsOf(in) {
		unix.Close(out)
		return -1
	}
	return out
}

// patchRegular makes the open target of a big file equal to the source. It returns whether anything was written.
func (c *copier) patchRegular(ctx context.Context, at pair, e *entry, in input, out int) (bool, error) {
	before := c.bytes.Load()
	p := patch{c, at, e, in.fd, out, ctx}
	err := c.dressPatch(p)
	if cerr := unix.Close(out); err == nil && cerr != nil && cerr != unix.EINTR {
		err = at.fault(target, "closing", e, cerr)
	}
	if err != nil {
		invalidate(at.dst, e)
	}
	return c.bytes.Load() > before, err
}

// dressPatch takes the steps of writeTemp.
func (c *copier) dressPatch(p patch) error {
	attrs, err := opened(p.in).xattrs(c.notCarried(p.at.dir, p.e.name))
	if err != nil {
		return p.at.fault(source, "reading extended attributes of", p.e, err)
	}
	if op, err := setOwner(opened(p.out), &p.e.meta); err != nil {
		return p.at.fault(target, op, p.e, err)
	}
	if err := p.contents(); err != nil {
		return err
	}
	if op, err := setRest(opened(p.out), &p.e.meta, attrs); err != nil {
		return p.at.fault(target, op, p.e, err)
	}
	if op, err := checkKept(opened(p.out), &p.e.meta); err != nil {
		return p.at.fault(target, op, p.e, err)
	}
	if c.hooks.copying != nil {
		c.hooks.copying(p.at.dir.join(p.e.name))
	}
	_, err = c.unchanged(p.at, p.e, p.in)
	return err
}

// contents compares the file in segments and writes what differs.
func (p patch) contents() error {
	size := p.e.meta.size
	st, err := fstat(p.out)
	if err == nil && st.Size != size {
		err = againErr(func() error { return unix.Ftruncate(p.out, size) })
	}
	if err != nil {
		return p.at.fault(target, "setting the size of", p.e, err)
	}
	parallel := patchParallel
	if p.c.limit != nil {
		parallel = 1
	}
	return runPool(p.ctx, parallel, func(pool *pool) {
		for from := (size - 1) / patchSegment * patchSegment; from >= 0; from -= patchSegment { // the pool takes the last first
			to := min(from+patchSegment, size)
			pool.add(func(ctx context.Context) error {
				mine := p
				mine.ctx = ctx
				return mine.segment(from, to)
			})
		}
	})
}

// segment goes through the runs of data and the holes of the source.
func (p patch) segment(from, to int64) error {
	for off := from; off < to; {
		data, end, err := nextData(p.in, off, to)
		if err != nil {
			return p.at.fault(source, "reading", p.e, err)
		}
		if err := p.clear(off, data); err != nil {
			return err
		}
		if err := p.bring(data, end); err != nil {
			return err
		}
		off = end
	}
	return nil
}

// eachRun calls hole and data for what the target has in a range.
func (p patch) eachRun(from, to int64, hole, data func(from, to int64) error) error {
	for off := from; off < to; {
		begin, end, err := nextData(p.out, off, to)
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

// clear makes a hole, as the source has it.
func (p patch) clear(from, to int64) error {
	return p.eachRun(from, to, nil, func(from, to int64) error {
		const mode = unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE
		err := againErr(func() error { return unix.Fallocate(p.out, mode, from, to-from) })
		if isAny(err, unix.EOPNOTSUPP, unix.ENOSYS) {
			return p.compare(from, to) // the source reads as zeros here
		}
		if err != nil {
			return p.at.fault(target, "making a hole in", p.e, err)
		}
		return nil
	})
}

// bring copies where the target has a hole, and compares where it has data.
func (p patch) bring(from, to int64) error {
	hole := func(from, to int64) error { return p.c.copyRun(p.ctx, p.at, p.e, run{p.in, p.out, from, to}) }
	return p.eachRun(from, to, hole, p.compare)
}

// compare reads a range on both sides and writes the blocks that differ.
func (p patch) compare(from, to int64) error {
	both := [2]*[bufferSize]byte{buffers.Get().(*[bufferSize]byte), buffers.Get().(*[bufferSize]byte)}
	defer buffers.Put(both[0])
	defer buffers.Put(both[1])
	nextIn, nextOut := ahead{p.in, from, to}, ahead{p.out, from, to}
	for off := from; off < to; {
		if err := context.Cause(p.ctx); err != nil {
			return err
		}
		nextIn.at(off)
		nextOut.at(off)
		n := min(bufferSize, to-off)
		want, have := both[source][:n], both[target][:n]
		if err := readFull(p.in, want, off); err != nil {
			return p.at.fault(source, "reading", p.e, err)
		}
		if err := readFull(p.out, have, off); err != nil {
			return p.at.fault(target, "reading", p.e, err)
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
		p.c.limit.took(p.ctx, 2*n+written)
		off += n
	}
	return nil
}

// writeDiffering writes the blocks of want that are not in have, which was read at off. It returns how many bytes it wrote.
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
		n, err := again(func() (int, error) { return unix.Pwrite(fd, buf, off) })
		if err != nil {
			return err
		}
		buf, off = buf[n:], off+int64(n)
	}
	return nil
}
