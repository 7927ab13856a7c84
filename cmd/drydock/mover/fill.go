//go:build linux

package mover

import (
	"context"
	"time"

	"golang.org/x/sys/unix"
)

// A chunk is a range of a directory's entries for one worker, limited by the number of names and by bytes.
const (
	chunkEntries = 32
	chunkBytes   = 8 << 20
)

// fill copies everything except directories and further names of hard links.
func (c *copier) fill(ctx context.Context) error {
	return runPool(ctx, c.workers, func(p *pool) {
		for i := len(c.tree.dirs) - 1; i >= 0; i-- { // the pool takes the last first
			d := c.tree.dirs[i]
			if d.excluded {
				continue
			}
			eachChunk(d.entries, func(lo, hi int) {
				p.add(func(ctx context.Context) error { return c.fillChunk(ctx, d, d.entries[lo:hi]) })
			})
		}
	})
}

// eachChunk yields ranges that cover all entries. Large files end up in separate chunks, so that they do not wait for
// each other.
func eachChunk(entries []entry, yield func(lo, hi int)) {
	lo, bytes := 0, int64(0)
	for i := range entries {
		if entries[i].meta.isRegular() {
			bytes += entries[i].meta.size
		}
		if i+1-lo >= chunkEntries || bytes >= chunkBytes {
			yield(lo, i+1)
			lo, bytes = i+1, 0
		}
	}
	if lo < len(entries) {
		yield(lo, len(entries))
	}
}

func (c *copier) fillChunk(ctx context.Context, d *dir, entries []entry) error {
	defer c.cost.copy.task(time.Now())
	at, err := c.openPair(d)
	if err != nil {
		c.failLeaders(d, entries)
		return c.problems.collect(err)
	}
	defer at.close()
	for i := range entries {
		e := &entries[i]
		g := c.tree.groupOf(d, e)
		if e.sub != nil || (g != nil && !g.isLeader(e)) {
			continue
		}
		err := c.copyEntry(ctx, at, e, g)
		if err != nil && g != nil {
			g.failed.Store(true)
		}
		if err := c.problems.collect(err); err != nil {
			return err
		}
		c.meter.files.Add(1)
	}
	return nil
}

// failLeaders marks the groups of entries that cannot be reached: there is nothing to link their other names to.
func (c *copier) failLeaders(d *dir, entries []entry) {
	for i := range entries {
		if g := c.tree.groupOf(d, &entries[i]); g != nil && g.isLeader(&entries[i]) {
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
