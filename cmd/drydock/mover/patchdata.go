//go:build linux

package mover

import (
	"context"

	"golang.org/x/sys/unix"
)

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
