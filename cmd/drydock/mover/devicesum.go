//go:build linux

package mover

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"

	"golang.org/x/sys/unix"
)

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
