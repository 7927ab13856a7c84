//go:build linux

package mover

import (
	"context"
	"crypto/sha256"
	"sync"
	"sync/atomic"
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
	p.content = hashOfUnits(size, p.want)
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
