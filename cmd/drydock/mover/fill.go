//go:build linux

package mover

import (
	"context"
	"time"

	"golang.org/x/sys/unix"
)

// fill copies everything except directories and further names of hard links.
func (c *copier) fill(ctx context.Context) error {
	c.reserveCopiedSums()
	return c.eachBlock(ctx, c.skipsBlock, c.fillChunk)
}

func (c *copier) fillChunk(ctx context.Context, d *dir, entries []entry) error {
	defer c.cost.copy.task(time.Now())
	entries = c.skipPresumed(d, entries)
	if len(entries) == 0 {
		return nil
	}
	at, err := c.openPair(d)
	if err != nil {
		c.noteChange(d, err)
		c.failLeaders(d, entries)
		return c.problems.collect(err)
	}
	defer at.close()
	if err := c.beginWriting(d, at.dst); err != nil {
		return c.problems.collect(err)
	}
	for i := range entries {
		e := &entries[i]
		g := c.tree.groupOf(e)
		if g != nil && !g.isLeader(d, e) {
			continue
		}
		err := c.copyEntry(ctx, at, e, g)
		if err != nil && g != nil {
			g.failed.Store(true)
		}
		c.noteChange(d, err)
		if err := c.problems.collect(err); err != nil {
			return err
		}
		c.meter.files.Add(1)
	}
	return nil
}

// skipPresumed removes directories and presumed files from the entries. It overwrites the slice.
func (c *copier) skipPresumed(d *dir, entries []entry) []entry {
	left, skipped, bytes := entries[:0], int64(0), int64(0)
	for i := range entries {
		e := &entries[i]
		switch {
		case e.sub != nil:
		case c.presumes(d, e):
			skipped++
			bytes += c.tree.dataSize(e)
		default:
			left = append(left, *e)
		}
	}
	c.countPresumed(skipped, bytes)
	return left
}

// failLeaders marks the groups of entries that cannot be reached: there is nothing to link their other names to.
func (c *copier) failLeaders(d *dir, entries []entry) {
	for i := range entries {
		if g := c.tree.groupOf(&entries[i]); g != nil && g.isLeader(d, &entries[i]) {
			g.failed.Store(true)
		}
	}
}

// copyEntry makes one entry of the target equal to the source's.
func (c *copier) copyEntry(ctx context.Context, at pair, e *entry, g *group) error {
	upToDate, err := c.isUpToDate(ctx, at, e, g)
	if err != nil {
		return err
	}
	if upToDate {
		c.skipped.Add(1)
		return nil
	}
	written := true
	if e.meta.isRegular() {
		began := time.Now()
		written, err = c.updateRegular(ctx, at, e, g)
		c.cost.copy.contents(e.meta.size, c.tree.dataSize(e), began)
	} else {
		err = c.copySpecial(at, e)
	}
	switch {
	case err != nil:
	case written:
		c.files.Add(1)
	default:
		c.skipped.Add(1)
	}
	return err
}

// updateRegular patches a big file that exists in the target, and copies any other file completely. It returns whether
// it wrote contents.
func (c *copier) updateRegular(ctx context.Context, at pair, e *entry, g *group) (bool, error) {
	in, err := c.openSource(at, e)
	if err != nil {
		return false, err
	}
	defer unix.Close(in.fd)
	if out := c.openPatch(at, e, g, in.fd); out >= 0 {
		return c.patchRegular(ctx, at, e, in, out)
	}
	return true, c.copyRegular(ctx, at, e, in)
}
