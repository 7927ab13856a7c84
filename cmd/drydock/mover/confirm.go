//go:build linux

package mover

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// confirm verifies the files that a first pass may record. It reads both sides, the target from its device. It skips
// files that changed, or that were not copied after their last change. It fails only if contents differ although the
// source did not change.
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

// errWrongContents is a mismatch that a write to the source cannot explain.
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
		if c.isSettled(e) && (g == nil || g.isLeader(e)) { // an inode is recorded once
			if err := c.tolerateMissing(c.confirmEntry(ctx, s, d, e, fds)); err != nil {
				return err
			}
		}
		c.meter.files.Add(1)
	}
	return nil
}

// tolerateMissing collects an error. It also ignores entries that the target lacks: they were not there to be copied.
func (c *copier) tolerateMissing(err error) error {
	if err != nil && kindOf(err) == kindDiffers && !errors.Is(err, errWrongContents) {
		return nil
	}
	return c.problems.collect(err)
}

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
