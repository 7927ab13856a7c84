//go:build linux

package mover

import (
	"context"
	"crypto/sha256"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// unitPatch updates a big file of the target with its kept hashes. It reads the source once, and of the target only the
// units that differ.
type unitPatch struct {
	patch
	*patchedUnits
}

// withUnits returns the patch by units and notes it, or nil without kept hashes that suffice.
func (p patch) withUnits(k *keptHashes) *unitPatch {
	if k == nil || !k.suffices(p.e.meta.size) {
		return nil
	}
	n := units(p.e.meta.size)
	u := &unitPatch{p, &patchedUnits{kept: k, size: p.e.meta.size, written: make([]atomic.Bool, n), want: make([]sum, n)}}
	p.c.keeper.addPatch(p.e.meta.inode(), u.patchedUnits)
	return u
}

// isComplete reports whether every unit was read or is in a hole.
func (p *unitPatch) isComplete() bool {
	for i := range p.want {
		if p.want[i] == (sum{}) {
			return false
		}
	}
	return true
}

// noteTarget notes the state of the target's inode after the patch.
func (p *unitPatch) noteTarget() {
	if p == nil {
		return
	}
	if st, err := fstat(p.out); err == nil {
		p.targetAfter = metaOf(&st)
	}
}

// updateUnits makes the target's contents equal. Its size is right already.
func (p *unitPatch) updateUnits() error {
	size := p.e.meta.size
	if err := p.updateLayout(size); err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(p.ctx)
	defer stop(nil)
	var all sync.WaitGroup
	pieces := make(chan unitPiece, 2*patchParallel)
	for range patchParallel {
		all.Go(func() {
			for piece := range pieces {
				if ctx.Err() == nil {
					if err := p.comparePiece(piece); err != nil {
						stop(err)
					}
				}
				piece.release()
			}
		})
	}
	err := p.readPieces(ctx, pieces)
	close(pieces)
	all.Wait()
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return err
}

// comparePiece compares the units of a piece, and writes the blocks of the units that differ.
func (p *unitPatch) comparePiece(piece unitPiece) error {
	for k := 0; piece.unit(k) != nil; k++ {
		i, want := piece.first+k, piece.unit(k)
		p.want[i] = sha256.Sum256(want)
		if !p.written[i].Load() && p.kept.holdsFor(i, p.e.meta.size) && p.want[i] == p.kept.sums[i] {
			continue
		}
		if err := p.updateUnit(i, want); err != nil {
			return err
		}
	}
	return nil
}

func (p *unitPatch) updateUnit(i int, want []byte) error {
	whole := buffers.Get()
	defer buffers.Put(whole)
	have, off := whole[:len(want)], int64(i)*unitSize
	if err := readFull(p.out, have, off); err != nil {
		return p.at.fault(target, "reading", p.e, err)
	}
	if err := p.c.checkOwned(); err != nil {
		return err
	}
	p.written[i].Store(true)
	n, err := writeDiffering(p.out, want, have, off)
	p.c.bytes.Add(n)
	if err != nil {
		return p.at.fault(target, "writing", p.e, err)
	}
	if n > 0 && p.c.hooks.wrote != nil {
		p.c.hooks.wrote(p.at.dir.join(p.e.name), n)
	}
	p.c.limit.wait(p.ctx, int64(len(want))+n)
	return nil
}

// updateLayout makes holes where the source has some, and allocates data where the target has a hole. It does not read the
// target.
func (p *unitPatch) updateLayout(size int64) error {
	for off := int64(0); off < size; {
		data, end, err := seekData(p.in, off, size)
		if err != nil {
			return p.at.fault(source, "reading", p.e, err)
		}
		p.markWholeHoles(off, data)
		err = p.eachRun(off, data, nil, func(from, to int64) error {
			p.mark(from, to)
			return p.patch.punchHole(from, to)
		})
		if err != nil {
			return err
		}
		hole := func(from, to int64) error {
			p.mark(from, to)
			return p.c.copyRun(p.ctx, p.at, p.e, run{p.in, p.out, from, to})
		}
		if err := p.eachRun(data, end, hole, func(int64, int64) error { return nil }); err != nil {
			return err
		}
		off = end
	}
	return nil
}

// mark notes that a range was written.
func (p *unitPatch) mark(from, to int64) {
	for i := from / unitSize; i < (to+unitSize-1)/unitSize; i++ {
		p.written[i].Store(true)
	}
}

// markWholeHoles notes the hashes that the units of a hole of the source must have. Of a unit without a kept hash, the target is written
// only if it has data there, and then punchHole marks it.
func (p *unitPatch) markWholeHoles(from, to int64) {
	for i := int((from + unitSize - 1) / unitSize); int64(i)*unitSize < to; i++ {
		n := unitLength(p.e.meta.size, i)
		if int64(i)*unitSize+n > to {
			return
		}
		p.want[i] = zerosOf(n)
		if p.kept.holdsFor(i, p.e.meta.size) && p.kept.sums[i] != p.want[i] {
			p.written[i].Store(true)
		}
	}
}

// pieceUnits is how many units are read from the source at once.
const pieceUnits = 16

// unitPiece is a piece of the source that was read.
type unitPiece struct {
	first int // unit
	data  []byte
}

var unitBuffers bufferPool[[pieceUnits * unitSize]byte]

// readPieces reads the source in order. Holes are not read, if they are whole units. The receiver of a piece releases it.
//
// A preallocated range may be in memory, and so data, when updateLayout searches for holes, and a hole now. Its units are read, too.
func (p *unitPatch) readPieces(ctx context.Context, pieces chan<- unitPiece) error {
	size, end := p.e.meta.size, int64(0)
	search := func(off, size int64) (from, to int64, err error) {
		if from, to, err = seekData(p.in, off, size); err != nil {
			err = p.at.fault(source, "reading", p.e, err)
		}
		return from, to, err
	}
	readUnnoted := func(to int64) error {
		for ; end < to; end += unitSize {
			if p.want[end/unitSize] == (sum{}) {
				if err := p.readRun(ctx, end, min(end+unitSize, size), pieces); err != nil {
					return err
				}
			}
		}
		return nil
	}
	err := eachUnitRun(size, search, func(from, to int64) error {
		if err := readUnnoted(from); err != nil {
			return err
		}
		end = to
		return p.readRun(ctx, from, to, pieces)
	})
	if err != nil {
		return err
	}
	return readUnnoted(size)
}

func (p *unitPatch) readRun(ctx context.Context, from, to int64, pieces chan<- unitPiece) error {
	next := readAhead{p.in, from, to}
	for from < to {
		next.advance(from)
		if err := context.Cause(ctx); err != nil {
			return err
		}
		buf := unitBuffers.Get()
		piece := unitPiece{first: int(from / unitSize), data: buf[:min(to-from, int64(len(buf)))]}
		if err := readFull(p.in, piece.data, from); err != nil {
			return p.at.fault(source, "reading", p.e, err)
		}
		n := int64(len(piece.data))
		pieces <- piece
		p.c.meter.bytes.Add(n)
		p.c.limit.wait(ctx, n)
		from += n
	}
	return nil
}

func (u unitPiece) release() { unitBuffers.Put((*[pieceUnits * unitSize]byte)(u.data[:cap(u.data)])) }

// unit returns a unit of the piece, or nil after the last.
func (u unitPiece) unit(i int) []byte {
	if from := i * unitSize; from < len(u.data) {
		return u.data[from:min(from+unitSize, len(u.data))]
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
		case p.want[i] != zerosOf(unitLength(size, i)): // zeros that were not written are in a hole, see markWholeHoles
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
