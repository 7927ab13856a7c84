//go:build linux

package mover

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"drydock.dev/shared/moverreport"
)

// device is an open block device.
type device struct {
	fd   int
	side side
	path string
	dev  uint64 // device number, the same under every name
	size int64
}

// openDevice opens a device. It opens a target exclusively, and refuses a target that is mounted or in use.
func openDevice(path string, s side, anyFile bool) (*device, error) {
	flags := unix.O_RDONLY
	if s == target {
		flags = unix.O_RDWR
	}
	fd, err := ignoringEINTRValue(func() (int, error) { return unix.Open(path, flags|unix.O_CLOEXEC|unix.O_NONBLOCK, 0) })
	if err != nil {
		return nil, deviceError(&fault{s, "opening the device", path, err})
	}
	d := &device{fd: fd, side: s, path: path}
	if err := d.identify(path, anyFile); err != nil {
		d.close()
		return nil, deviceError(&fault{s, "opening the device", path, err})
	}
	return d, nil
}

var errNoDevice = errors.New("it is not a block device")

func (d *device) identify(path string, anyFile bool) error {
	st, err := fstat(d.fd)
	if err != nil {
		return err
	}
	d.dev = st.Rdev
	switch {
	case st.Mode&unix.S_IFMT == unix.S_IFBLK && d.side == target:
		err = d.openExclusive(path)
	case st.Mode&unix.S_IFMT == unix.S_IFBLK:
	case anyFile && st.Mode&unix.S_IFMT == unix.S_IFREG:
		d.dev = st.Ino
	default:
		err = errNoDevice
	}
	if err == nil {
		d.size, err = unix.Seek(d.fd, 0, unix.SEEK_END)
	}
	return err
}

// openExclusive opens the device again with O_EXCL, which has a meaning for block devices only.
func (d *device) openExclusive(path string) error {
	fd, err := ignoringEINTRValue(func() (int, error) { return unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_EXCL, 0) })
	if err != nil {
		return err
	}
	st, err := fstat(fd)
	if err == nil && st.Rdev != d.dev {
		err = errNoDevice
	}
	if err != nil {
		unix.Close(fd)
		return err
	}
	unix.Close(d.fd)
	d.fd = fd
	return nil
}

func (d *device) close() { unix.Close(d.fd) }

func (d *device) fault(op string, err error) error { return &fault{d.side, op, d.path, err} }

// deviceError turns a path that is missing or is not a device into a usage error.
func deviceError(err error) error {
	if isAny(err, unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.ENXIO, unix.EISDIR, errNoDevice) {
		return usageError(err)
	}
	return err
}

// dropCache drops the cached contents of a device, so that they are read from the device itself. None of them is dirty.
// fadvise does it where BLKFLSBUF is not allowed.
func (d *device) dropCache() error {
	if d.side == target {
		_, _ = ignoringEINTRValue(func() (int, error) { return unix.IoctlRetInt(d.fd, unix.BLKFLSBUF) })
	}
	if err := ignoringEINTR(func() error { return unix.Fadvise(d.fd, 0, 0, unix.FADV_DONTNEED) }); err != nil {
		return d.fault("dropping the cache of", err)
	}
	return nil
}

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

// pieceSize is the unit for hashes of a device. Each piece takes 32 bytes of memory.
const pieceSize = 4 << 20

func pieces(size int64) int { return int((size + pieceSize - 1) / pieceSize) }

func newPieceHash() hash.Hash { return sha256.New() }

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

// eachBuffer calls f for consecutive parts of a piece.
func eachBuffer(ctx context.Context, index int, size int64, f func(buf []byte, off int64) error) error {
	whole := buffers.Get()
	defer buffers.Put(whole)
	off := int64(index) * pieceSize
	for end := min(off+pieceSize, size); off < end; off += bufferSize {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := f(whole[:min(bufferSize, end-off)], off); err != nil {
			return err
		}
	}
	return nil
}

// readAhead asks the kernel to read a piece. A failure does not matter.
func (d *device) readAhead(index int, size int64) {
	off := int64(index) * pieceSize
	_ = unix.Fadvise(d.fd, off, min(pieceSize, size-off), unix.FADV_WILLNEED)
}

// sumPiece hashes a piece of a device.
func (d *device) sumPiece(ctx context.Context, index int, size int64, read func(int64)) (sum, error) {
	h := newPieceHash()
	d.readAhead(index, size)
	err := eachBuffer(ctx, index, size, func(buf []byte, off int64) error {
		if err := readFull(d.fd, buf, off); err != nil {
			return d.fault("reading", err)
		}
		h.Write(buf)
		read(int64(len(buf)))
		return nil
	})
	return sum(h.Sum(nil)), err
}

// DeviceDigest returns a SHA-256, in hex, over the first size bytes of a block device, or over all of it if size is 0.
// The hash covers "drydock-device-1\n", the size (8 bytes, big endian) and the SHA-256 of each 4 MiB. The last piece may
// be short.
//
// workers is as in Options. Any error is an *Error.
func DeviceDigest(ctx context.Context, path string, size int64, workers int) (string, error) {
	return deviceDigest(ctx, path, size, workers, false)
}

func deviceDigest(ctx context.Context, path string, size int64, workers int, anyFile bool) (string, error) {
	d, err := openDevice(path, source, anyFile)
	if err != nil {
		return "", toError(err, nil)
	}
	defer d.close()
	if size <= 0 || size > d.size {
		size = d.size
	}
	sums := make([]sum, pieces(size))
	err = eachPiece(ctx, workerCount(workers), size, func(ctx context.Context, i int) (err error) {
		sums[i], err = d.sumPiece(ctx, i, size, func(int64) {})
		return err
	})
	if err != nil {
		return "", toError(err, nil)
	}
	return digestOf(sums, size), nil
}

func digestOf(sums []sum, size int64) string {
	h := sha256.New()
	h.Write([]byte("drydock-device-1\n"))
	writeInt(h, size)
	for i := range sums {
		h.Write(sums[i][:])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// verify reads both devices again, over the source's length. A difference in the source means that another process wrote
// to it during the copy.
func (c *deviceCopier) verify(ctx context.Context) error {
	for _, d := range []*device{c.src, c.dst} {
		if err := d.dropCache(); err != nil {
			return err
		}
	}
	err := eachPiece(ctx, c.workers, c.src.size, c.verifyPiece)
	if err == nil {
		c.digest = digestOf(c.sourceSums, c.src.size)
	}
	return err
}

func (c *deviceCopier) verifyPiece(ctx context.Context, index int) error {
	want, err := c.src.sumPiece(ctx, index, c.src.size, func(int64) {})
	if err != nil {
		return err
	}
	if want != c.sourceSums[index] {
		return c.src.fault("reading", errChanged)
	}
	have, err := c.dst.sumPiece(ctx, index, c.src.size, func(n int64) { c.meter.bytes.Add(n) })
	if err != nil {
		return err
	}
	if have != want {
		off := int64(index) * pieceSize
		return c.dst.fault("comparing", mismatch(fmt.Sprintf("it differs between the bytes %d and %d", off, min(off+pieceSize, c.src.size))))
	}
	return nil
}
