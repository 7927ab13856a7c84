//go:build linux

package mover

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync/atomic"
	"time"

	"drydock.dev/shared/moverreport"
	"golang.org/x/sys/unix"
)

// CopyDevice copies the contents of the block device Source to the beginning of the block device Target. It uses the
// options Source, Target, Workers, NoVerify, Pass and Progress. It writes only the blocks that differ, so a second pass
// is short. It does not touch or check a larger target behind the source's end. A first pass is not verified. Any error
// is an *Error. It is safe to repeat.
func CopyDevice(ctx context.Context, o Options) (Result, error) {
	c, err := newDeviceCopier(o)
	if err != nil {
		return Result{Pass: o.Pass}, toError(err, nil)
	}
	defer c.close()
	err = c.run(ctx, o)
	if e := toError(err, nil); e != nil {
		return c.result(o), e
	}
	return c.result(o), nil
}

// deviceSeams are the points where tests act.
type deviceSeams interface {
	AcceptsAnyFile() bool // a regular file counts as a device
	DeviceWritten(n int64)
	TargetSynced() // between flush and verification
}

// deviceCopier is one copy of a device.
type deviceCopier struct {
	src, dst   *device
	workers    int
	seams      deviceSeams
	meter      *meter
	limit      *Limiter
	copying    effort
	flush      time.Duration
	seed       maphash.Seed
	sourceSums []uint64 // hashes of the source's pieces when they were copied
	written    atomic.Int64
	copied     int64 // 1 when everything is in the target
	verified   bool
}

func newDeviceCopier(o Options) (*deviceCopier, error) {
	src, err := openDevice(o.Source, source, o.hooks.anyFile)
	if err != nil {
		return nil, err
	}
	dst, err := openDevice(o.Target, target, o.hooks.anyFile)
	if err != nil {
		src.close()
		return nil, err
	}
	c := &deviceCopier{
		src: src, dst: dst, seams: &o.hooks, seed: maphash.MakeSeed(), sourceSums: make([]uint64, pieces(src.size)),
		workers: workerCount(o.Workers), meter: newMeter(o.Progress, o.ProgressInterval), limit: o.Limit,
	}
	if err := c.checkSizes(); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *deviceCopier) checkSizes() error {
	if c.src.dev == c.dst.dev {
		return usageError(errors.New("source and target are the same device"))
	}
	if c.src.size == 0 { // a network block device that has lost its server can be opened, and has no bytes
		return c.src.fault("reading", errors.New("it has 0 bytes, so its storage may be disconnected"))
	}
	if c.src.size > c.dst.size {
		return tooSmall("the source device has %d bytes, the target device %d", c.src.size, c.dst.size)
	}
	return nil
}

func (c *deviceCopier) close() {
	c.meter.close()
	c.src.close()
	c.dst.close()
}

func (c *deviceCopier) run(ctx context.Context, o Options) error {
	c.meter.bytesTotal.Store(c.src.size)
	c.meter.filesTotal.Store(1)
	c.meter.enter(moverreport.PhaseScan)
	for _, d := range []*device{c.src, c.dst} { // another node may have written to the device since it was read here
		if err := d.dropCache(); err != nil {
			return err
		}
	}
	c.meter.enter(moverreport.PhaseCopy)
	err := c.copying.measure(c.limit, func() error { return eachPiece(ctx, c.workers, c.src.size, c.copyPiece) })
	if err != nil {
		return err
	}
	c.copied = 1
	c.meter.files.Store(1)
	c.meter.enter(moverreport.PhaseSync)
	began := time.Now()
	if err := ignoringEINTR(func() error { return unix.Fsync(c.dst.fd) }); err != nil {
		return c.dst.fault("flushing", err)
	}
	c.flush = time.Since(began)
	if o.NoVerify || o.Pass == PassFirst {
		return nil
	}
	c.seams.TargetSynced()
	c.meter.enter(moverreport.PhaseVerify)
	return c.verify(ctx)
}

// copyPiece writes the blocks of a piece that differ.
func (c *deviceCopier) copyPiece(ctx context.Context, index int) error {
	var h maphash.Hash
	h.SetSeed(c.seed)
	err := c.readPiece(ctx, index, func(off int64, parts [2][]byte) error {
		_, _ = h.Write(parts[source])
		written, err := writeDiffering(c.dst.fd, parts[source], parts[target], off)
		c.written.Add(written)
		if err != nil {
			return c.dst.fault("writing", err)
		}
		if written > 0 {
			c.seams.DeviceWritten(written)
		}
		n := int64(len(parts[source]))
		c.limit.wait(ctx, 2*n+written)
		c.meter.bytes.Add(n)
		return nil
	})
	c.sourceSums[index] = h.Sum64()
	return err
}

// readPiece calls f for the parts of a piece of both devices.
func (c *deviceCopier) readPiece(ctx context.Context, index int, f func(off int64, parts [2][]byte) error) error {
	off := int64(index) * pieceSize
	err := readRange(ctx, []int{c.src.fd, c.dst.fd}, off, min(off+pieceSize, c.src.size), f)
	if f := (*sideError)(nil); errors.As(err, &f) {
		return [2]*device{c.src, c.dst}[f.side].fault("reading", f.err)
	}
	return err
}

func (c *deviceCopier) result(o Options) Result {
	r := Result{Bytes: c.written.Load(), Total: c.src.size, Verified: c.verified, Pass: o.Pass, Figures: c.figures()}
	if r.Bytes > 0 {
		r.Files = 1
	} else {
		r.Skipped = c.copied
	}
	return r
}

// figures returns the figures of a completed pass. The final pass reads all of both devices twice, to copy and to
// verify.
func (c *deviceCopier) figures() Figures {
	e := &c.copying
	took := e.wall - min(e.wall, e.waited/time.Duration(c.workers))
	if took <= 0 {
		return Figures{}
	}
	cost := Cost{Rate: float64(c.src.size) / took.Seconds(), Workers: 1}
	return Figures{Flush: c.flush, Cost: cost, Remaining: Work{Bytes: c.src.size}}
}

// verify reads both devices again, over the source's length, and compares them.
func (c *deviceCopier) verify(ctx context.Context) error {
	for _, d := range []*device{c.src, c.dst} {
		if err := d.dropCache(); err != nil {
			return err
		}
	}
	err := eachPiece(ctx, c.workers, c.src.size, c.verifyPiece)
	c.verified = err == nil
	return err
}

// verifyPiece finds out which side is to blame for a difference: another process may write to the source.
func (c *deviceCopier) verifyPiece(ctx context.Context, index int) error {
	var h maphash.Hash
	h.SetSeed(c.seed)
	same := true
	err := c.readPiece(ctx, index, func(_ int64, parts [2][]byte) error {
		_, _ = h.Write(parts[source])
		same = same && bytes.Equal(parts[source], parts[target])
		c.meter.bytes.Add(int64(len(parts[target])))
		return nil
	})
	switch {
	case err != nil:
		return err
	case h.Sum64() != c.sourceSums[index]:
		return c.src.fault("reading", errChanged)
	case !same:
		off := int64(index) * pieceSize
		return c.dst.fault("comparing", mismatch(fmt.Sprintf("it differs between the bytes %d and %d", off, min(off+pieceSize, c.src.size))))
	}
	return nil
}

// pieceSize is the unit of work. The kernel reads a piece ahead, and each piece takes 8 bytes of memory.
const pieceSize = readAheadSize

func pieces(size int64) int { return int((size + pieceSize - 1) / pieceSize) }

// eachPiece calls f for all pieces of a device on several workers, roughly in order.
func eachPiece(ctx context.Context, workers int, size int64, f func(ctx context.Context, index int) error) error {
	return runPool(ctx, workers, func(p *pool) {
		stride := workers
		for w := range stride { // a task per worker, because a task per piece would be many on a large device
			p.add(func(ctx context.Context) error {
				for i := w; i < pieces(size); i += stride {
					if err := f(ctx, i); err != nil {
						return err
					}
				}
				return nil
			})
		}
	})
}
