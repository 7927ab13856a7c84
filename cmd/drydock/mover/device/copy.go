//go:build linux

package device

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/fault"
	"drydock.dev/cmd/drydock/mover/forecast"
	"drydock.dev/cmd/drydock/mover/fsys"
	"drydock.dev/cmd/drydock/mover/pool"
	"drydock.dev/cmd/drydock/mover/progress"
	"drydock.dev/cmd/drydock/mover/units"
	"drydock.dev/shared/moverreport"
)

// Options say what to copy, see mover.Options.
type Options struct {
	Source, Target string
	Workers        int  // pieces copied at once
	Verify         bool // read both devices again and compare them
	Meter          *progress.Meter
	Limit          *progress.Limiter // may be nil
	Seams          seams
}

// deviceResult says what a copy did, see mover.Result. A failed copy has one, too.
type deviceResult struct {
	Bytes, Size int64
	Complete    bool // everything is in the target
	Verified    bool
	Figures     forecast.Figures
}

// Copy copies the contents of a block device to the beginning of another one. It writes only the blocks that differ.
func Copy(ctx context.Context, o Options) (deviceResult, error) {
	c, err := newDeviceCopier(o)
	if err != nil {
		return deviceResult{}, err
	}
	defer c.close()
	err = c.run(ctx)
	return c.result(), err
}

// seams are the points where tests act.
type seams interface {
	AcceptsAnyFile() bool // a regular file counts as a device
	DeviceWritten(n int64)
	TargetSynced() // between flush and verification
}

// deviceCopier is one copy of a device.
type deviceCopier struct {
	Options
	src, dst   *device
	copying    forecast.Effort
	flush      time.Duration
	seed       maphash.Seed
	sourceSums []uint64 // hashes of the source's pieces when they were copied
	written    atomic.Int64
	complete   bool // everything is in the target
	verified   bool
}

func newDeviceCopier(o Options) (*deviceCopier, error) {
	src, err := openDevice(o.Source, fault.Source, o.Seams.AcceptsAnyFile())
	if err != nil {
		return nil, err
	}
	dst, err := openDevice(o.Target, fault.Target, o.Seams.AcceptsAnyFile())
	if err != nil {
		src.close()
		return nil, err
	}
	c := &deviceCopier{Options: o, src: src, dst: dst, seed: maphash.MakeSeed(), sourceSums: make([]uint64, pieces(src.size))}
	if err := c.checkSizes(); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *deviceCopier) checkSizes() error {
	if c.src.dev == c.dst.dev {
		return fault.UsageError(errors.New("source and target are the same device"))
	}
	if c.src.size == 0 { // a network block device that has lost its server can be opened, and has no bytes
		return c.src.fault("reading", errors.New("it has 0 bytes, so its storage may be disconnected"))
	}
	if c.src.size > c.dst.size {
		return fault.TooSmall("the source device has %d bytes, the target device %d", c.src.size, c.dst.size)
	}
	return nil
}

func (c *deviceCopier) close() {
	c.src.close()
	c.dst.close()
}

func (c *deviceCopier) run(ctx context.Context) error {
	c.Meter.BytesTotal.Store(c.src.size)
	c.Meter.FilesTotal.Store(1)
	c.Meter.Enter(moverreport.PhaseScan)
	for _, d := range []*device{c.src, c.dst} { // another node may have written to the device since it was read here
		if err := d.dropCache(); err != nil {
			return err
		}
	}
	c.Meter.Enter(moverreport.PhaseCopy)
	err := c.copying.Measure(c.Limit, func() error { return eachPiece(ctx, c.Workers, c.src.size, c.copyPiece) })
	if err != nil {
		return err
	}
	c.complete = true
	c.Meter.Files.Store(1)
	c.Meter.Enter(moverreport.PhaseSync)
	began := time.Now()
	if err := fsys.IgnoringEINTR(func() error { return unix.Fsync(c.dst.fd) }); err != nil {
		return c.dst.fault("flushing", err)
	}
	c.flush = time.Since(began)
	if !c.Verify {
		return nil
	}
	c.Seams.TargetSynced()
	c.Meter.Enter(moverreport.PhaseVerify)
	return c.compare(ctx)
}

// copyPiece writes the blocks of a piece that differ.
func (c *deviceCopier) copyPiece(ctx context.Context, index int) error {
	var h maphash.Hash
	h.SetSeed(c.seed)
	err := c.readPiece(ctx, index, func(off int64, parts [2][]byte) error {
		_, _ = h.Write(parts[fault.Source])
		written, err := units.WriteDiffering(c.dst.fd, parts[fault.Source], parts[fault.Target], off)
		c.written.Add(written)
		if err != nil {
			return c.dst.fault("writing", err)
		}
		if written > 0 {
			c.Seams.DeviceWritten(written)
		}
		n := int64(len(parts[fault.Source]))
		c.Limit.Wait(ctx, 2*n+written)
		c.Meter.Bytes.Add(n)
		return nil
	})
	c.sourceSums[index] = h.Sum64()
	return err
}

// readPiece calls f for the parts of a piece of both devices.
func (c *deviceCopier) readPiece(ctx context.Context, index int, f func(off int64, parts [2][]byte) error) error {
	off := int64(index) * pieceSize
	err := units.ReadRange(ctx, []int{c.src.fd, c.dst.fd}, off, min(off+pieceSize, c.src.size), f)
	if f := (*units.SideError)(nil); errors.As(err, &f) {
		return [2]*device{c.src, c.dst}[f.Side].fault("reading", f.Err)
	}
	return err
}

func (c *deviceCopier) result() deviceResult {
	return deviceResult{c.written.Load(), c.src.size, c.complete, c.verified, c.figures()}
}

// figures returns the figures of a completed pass. The final pass reads all of both devices twice, to copy and to
// verify.
func (c *deviceCopier) figures() forecast.Figures {
	e := &c.copying
	took := e.Wall - min(e.Wall, e.Waited/time.Duration(c.Workers))
	if took <= 0 {
		return forecast.Figures{}
	}
	cost := forecast.Cost{Rate: float64(c.src.size) / took.Seconds(), Workers: 1}
	return forecast.Figures{Flush: c.flush, Cost: cost, Remaining: forecast.Work{Bytes: c.src.size}}
}

// compare reads both devices again, over the source's length, and compares them.
func (c *deviceCopier) compare(ctx context.Context) error {
	for _, d := range []*device{c.src, c.dst} {
		if err := d.dropCache(); err != nil {
			return err
		}
	}
	err := eachPiece(ctx, c.Workers, c.src.size, c.comparePiece)
	c.verified = err == nil
	return err
}

// comparePiece finds out which side is to blame for a difference: another process may write to the source.
func (c *deviceCopier) comparePiece(ctx context.Context, index int) error {
	var h maphash.Hash
	h.SetSeed(c.seed)
	same := true
	err := c.readPiece(ctx, index, func(_ int64, parts [2][]byte) error {
		_, _ = h.Write(parts[fault.Source])
		same = same && bytes.Equal(parts[fault.Source], parts[fault.Target])
		c.Meter.Bytes.Add(int64(len(parts[fault.Target])))
		return nil
	})
	switch {
	case err != nil:
		return err
	case h.Sum64() != c.sourceSums[index]:
		return c.src.fault("reading", fault.ErrChanged)
	case !same:
		off := int64(index) * pieceSize
		return c.dst.fault("comparing", fault.Mismatch(
			fmt.Sprintf("it differs between the bytes %d and %d", off, min(off+pieceSize, c.src.size))))
	}
	return nil
}

// pieceSize is the unit of work. The kernel reads a piece ahead, and each piece takes 8 bytes of memory.
const pieceSize = fsys.ReadAheadSize

func pieces(size int64) int { return int((size + pieceSize - 1) / pieceSize) }

// eachPiece calls f for all pieces of a device on several workers, roughly in order.
func eachPiece(ctx context.Context, workers int, size int64, f func(ctx context.Context, index int) error) error {
	return pool.Run(ctx, workers, func(p *pool.Pool) {
		stride := workers
		for w := range stride { // a task per worker, because a task per piece would be many on a large device
			p.Add(func(ctx context.Context) error {
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
