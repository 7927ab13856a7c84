//go:build linux

package mover

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// confirm verifies, file by file, what a warm pass may record: it reads both sides, the target from its device. What has
// changed, or was not copied since it changed, is left out. Only contents that came out wrong although the source stood
// still are a failure.
func (c *copier) confirm(ctx context.Context) error {
	s := c.summer()
	return runPool(ctx, c.workers, func(p *pool) {
		for i := len(c.tree.dirs) - 1; i >= 0; i-- {
			d := c.tree.dirs[i]
			eachChunk(d.entries, func(lo, hi int) {
				p.add(func(ctx context.Context) error { return c.confirmChunk(ctx, s, d, d.entries[lo:hi]) })
			})
		}
	})
}

// errWrong is a mismatch that cannot come from a source that is written to.
var errWrong = fmt.Errorf("%w: its contents differ", errMismatch)

func (c *copier) confirmChunk(ctx context.Context, s *summer, d *dir, entries []entry) error {
	defer c.cost.check.task(time.Now())
	fds, err := s.open(d)
	defer closeAll(fds)
	if err != nil {
		return c.letPass(err)
	}
	for i := range entries {
		e := &entries[i]
		if e.sub != nil {
			continue
		}
		g := c.tree.groupOf(d, e)
		if c.isSettled(e) && (g == nil || g.leads(e)) { // an inode is recorded once
			if err := c.letPass(c.confirmEntry(ctx, s, d, e, fds)); err != nil {
				return err
			}
		}
		c.meter.files.Add(1)
	}
	return nil
}

// letPass also tolerates what is missing in the target: it was not there to be copied.
func (c *copier) letPass(err error) error {
	if err != nil && kindOf(err) == kindDiffers && !errors.Is(err, errWrong) {
		return nil
	}
	return c.problems.tolerate(err)
}

func (c *copier) confirmEntry(ctx context.Context, s *summer, d *dir, e *entry, fds []int) error {
	both, err := s.look(ctx, d, e, fds)
	if err != nil {
		return err
	}
	src, dst := &both[source], &both[target]
	if src.content != dst.content && sameAttributes(&src.meta, &dst.meta) {
		invalidate(fds[target], e)
		return &fault{target, "comparing", d.join(e.name), errWrong}
	}
	if err := differ(d.join(e.name), src, dst, c.tree.groupOf(d, e)); err != nil {
		return err
	}
	if c.hooks.confirmed != nil {
		c.hooks.confirmed(d.join(e.name))
	}
	c.warm.fresh.add(&e.meta, &dst.meta, src.content, src.data)
	return nil
}
