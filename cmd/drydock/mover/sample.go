//go:build linux

package mover

import (
	"context"
	"time"

	"golang.org/x/sys/unix"
)

// sampleSize is how much of a big file is verified to measure the speed of verification.
const sampleSize = 64 << 20

// sampleCheck measures the verification of a big file that this pass cannot record because it is in use. The final pass
// has to verify it. Errors do not matter here: the final pass reports them.
func (c *copier) sampleCheck(ctx context.Context, k *firstPassState) {
	if c.cost.check.bigBytes.Load() > 0 || !c.tree.hasBig {
		return
	}
	d, e := k.largestRemaining(c.tree)
	if e == nil || k.kept[e.meta.inode()] != nil { // the verification reads only what differs
		return
	}
	s := c.newHasher()
	fds, err := s.open(d)
	defer closeAll(fds)
	if err != nil {
		return
	}
	size := min(e.meta.size, sampleSize)
	began := time.Now()
	err = inParallel(func(side int) error { return s.hashSample(ctx, side, fds[side], e.name, size) })
	if err == nil {
		c.cost.check.contents(e.meta.size, min(c.tree.dataSize(e), size), began)
	}
	c.limit.wait(ctx, 2*size)
}

// hashSample hashes the beginning of a file, the target's from its device.
func (s *treeHasher) hashSample(ctx context.Context, side, dirfd int, name string, size int64) error {
	fd, err := openat(dirfd, name, unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if s.sides[side].side == target {
		if err := ignoringEINTR(func() error { return unix.Fadvise(fd, 0, size, unix.FADV_DONTNEED) }); err != nil {
			return err
		}
	}
	_, err = hashContents(ctx, fd, size, 0, hashing{})
	return err
}

// largestRemaining returns the largest big file that the final pass has to read, or nil.
func (k *firstPassState) largestRemaining(t *tree) (in *dir, largest *entry) {
	k.eachRemaining(t, func(d *dir, e *entry, _ bool) {
		if e.meta.size >= bigFileMin && (largest == nil || t.dataSize(e) > t.dataSize(largest)) {
			copied := *e
			in, largest = d, &copied
		}
	})
	return in, largest
}
