//go:build linux

package mover

import (
	"context"
	"time"

	"golang.org/x/sys/unix"
)

// sampleSize is how much of a big file is verified to learn how fast that is.
const sampleSize = 64 << 20

// sampleCheck measures the verification of a big file that this pass cannot record, since it is being written to. The final pass
// has to verify it. Errors do not matter: the final pass finds what is wrong.
func (c *copier) sampleCheck(ctx context.Context, k *known) {
	if c.cost.check.bigBytes.Load() > 0 {
		return
	}
	d, e := k.largestLeft(c.tree)
	if e == nil {
		return
	}
	s := c.summer()
	fds, err := s.open(d)
	defer closeAll(fds)
	if err != nil {
		return
	}
	size := min(e.meta.size, sampleSize)
	began := time.Now()
	err = atOnce(func(side int) error { return s.sample(ctx, side, fds[side], e.name, size) })
	if err == nil {
		c.cost.check.contents(e.meta.size, min(c.tree.data(e), size), began)
	}
	c.limit.took(ctx, 2*size)
}

// sample hashes the beginning of a file, the target's from its device.
func (s *summer) sample(ctx context.Context, side, dirfd int, name string, size int64) error {
	fd, err := openat(dirfd, name, unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if s.sides[side].side == target {
		if err := againErr(func() error { return unix.Fadvise(fd, 0, size, unix.FADV_DONTNEED) }); err != nil {
			return err
		}
	}
	_, err = hashContents(ctx, fd, size, nil)
	return err
}

// largestLeft returns the largest big file that the final pass has to read, or nil.
func (k *known) largestLeft(t *tree) (in *dir, largest *entry) {
	k.eachLeft(t, func(d *dir, e *entry) {
		if e.meta.size >= patchLeast && (largest == nil || t.data(e) > t.data(largest)) {
			in, largest = d, e
		}
	})
	return in, largest
}
