//go:build linux

package mover

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"drydock.dev/shared/moverreport"
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

// deviceCopier is one copy of a device.
type deviceCopier struct {
	src, dst   *device
	workers    int
	hooks      hooks
	meter      *meter
	limit      *Limiter
	copying    effort
	flush      time.Duration
	sourceSums []sum // hashes of the source's pieces when they were copied
	written    atomic.Int64
	copied     int64 // 1 when everything is in the target
	digest     string
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
		src: src, dst: dst, hooks: o.hooks, sourceSums: make([]sum, pieces(src.size)),
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
	if c.hooks.synced != nil {
		c.hooks.synced()
	}
	c.meter.enter(moverreport.PhaseVerify)
	return c.verify(ctx)
}

// copyPiece writes the blocks of a piece that differ.
func (c *deviceCopier) copyPiece(ctx context.Context, index int) error {
	h := newPieceHash()
	c.src.readAhead(index, c.src.size)
	c.dst.readAhead(index, c.src.size)
	err := eachBuffer(ctx, index, c.src.size, func(buf []byte, off int64) error {
		if err := readFull(c.src.fd, buf, off); err != nil {
			return c.src.fault("reading", err)
		}
		h.Write(buf)
		err := c.updateRange(ctx, buf, off)
		c.meter.bytes.Add(int64(len(buf)))
		return err
	})
	c.sourceSums[index] = sum(h.Sum(nil))
	return err
}

// updateRange makes a range of the target equal to buf.
func (c *deviceCopier) updateRange(ctx context.Context, buf []byte, off int64) error {
	there := buffers.Get()
	defer buffers.Put(there)
	if err := readFull(c.dst.fd, there[:len(buf)], off); err != nil {
		return c.dst.fault("reading", err)
	}
	written, err := writeDiffering(c.dst.fd, buf, there[:len(buf)], off)
	c.written.Add(written)
	if err != nil {
		return c.dst.fault("writing", err)
	}
	if written > 0 && c.hooks.wrote != nil {
		c.hooks.wrote("", written)
	}
	c.limit.wait(ctx, 2*int64(len(buf))+written)
	return nil
}

func (c *deviceCopier) result(o Options) Result {
	r := Result{Bytes: c.written.Load(), Total: c.src.size, Digest: c.digest, Pass: o.Pass, Figures: c.figures()}
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
	return Figures{Flush: c.flush, Copy: cost, Check: cost, Remaining: Work{Bytes: c.src.size}}
}
