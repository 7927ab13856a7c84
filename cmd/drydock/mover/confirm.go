//go:build linux

package mover

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// confirm verifies the files that a first pass may record, and records those that are equal. It reads both sides, and the
// target from its device. It skips files that were changed recently. The source is in use, so most differences are no
// errors. The exception is a file with different contents but equal attributes.
func (c *copier) confirm(ctx context.Context) error {
	s := c.newHasher()
	return runPool(ctx, c.workers, func(p *pool) {
		for i := len(c.tree.dirs) - 1; i >= 0; i-- {
			d := c.tree.dirs[i]
			eachChunk(d.entries, func(lo, hi int) {
				p.add(func(ctx context.Context) error { return c.confirmChunk(ctx, s, d, d.entries[lo:hi]) })
			})
		}
	})
}

// errWrongContents means that the contents differ although the attributes are equal. A write to the source would have
// changed its modification time, so the copy is wrong.
var errWrongContents = fmt.Errorf("%w: its contents differ", errMismatch)

func (c *copier) confirmChunk(ctx context.Context, s *treeHasher, d *dir, entries []entry) error {
	defer c.cost.check.task(time.Now())
	fds, err := s.open(d)
	defer closeAll(fds)
	if err != nil {
		return c.tolerateMissing(err)
	}
	for i := range entries {
		e := &entries[i]
		if e.sub != nil {
			continue
		}
		g := c.tree.groupOf(d, e)
		if c.isSettled(e) && (g == nil || g.isLeader(e)) { // of several names of an inode, only one is recorded
			if err := c.tolerateMissing(c.confirmEntry(ctx, s, d, e, fds)); err != nil {
				return err
			}
		}
		c.meter.files.Add(1)
	}
	return nil
}

// tolerateMissing collects an error, and ignores a difference other than errWrongContents. The target may lack an entry
// that is new in the source, or have an earlier version of a changed file.
func (c *copier) tolerateMissing(err error) error {
	if err != nil && kindOf(err) == kindDiffers && !errors.Is(err, errWrongContents) {
		return nil
	}
	return c.problems.collect(err)
}

// confirmEntry compares an entry in both trees, and records it if they are equal. If only the contents differ, the next run
// copies the entry again.
func (c *copier) confirmEntry(ctx context.Context, s *treeHasher, d *dir, e *entry, fds []int) error {
	both, err := s.readSides(ctx, d, e, fds)
	if err != nil {
		return err
	}
	src, dst := &both[source], &both[target]
	if src.content != dst.content && sameAttributes(&src.meta, &dst.meta) {
		invalidate(fds[target], e)
		return &fault{target, "comparing", d.join(e.name), errWrongContents}
	}
	if err := differenceError(d.join(e.name), src, dst, c.tree.groupOf(d, e)); err != nil {
		return err
	}
	if c.hooks.confirmed != nil {
		c.hooks.confirmed(d.join(e.name))
	}
	c.twoPass.current.add(&e.meta, &dst.meta, src.content, src.data)
	return nil
}
