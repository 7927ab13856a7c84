//go:build linux

package mover

import (
	"context"
	"crypto/sha256"

	"golang.org/x/sys/unix"
)

// verify reads the written units of the target from the device, and compares them with the source. All other units were
// read from the device by an earlier pass, and equal the source.
func (p *patchedUnits) verify(ctx context.Context, fd int) error {
	return p.eachWritten(ctx, fd, p.size, func(i int, have sum) error {
		if have != p.want[i] {
			return mismatch("its contents differ")
		}
		return nil
	})
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
	if err := ignoringEINTR(func() error { return unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED) }); err != nil {
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
