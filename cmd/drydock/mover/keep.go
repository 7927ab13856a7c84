//go:build linux

package mover

import (
	"context"

	"golang.org/x/sys/unix"
)

// A first pass hashes the big files of the target and keeps the hashes in memory. The next pass of the same process compares them
// with the source, and reads only those units of the target that differ.
//
// The contents are read from the target's device after a flush. The hashes describe the target only, so they are valid even if the
// source changed meanwhile or the copy was wrong. They are valid until the target's inode changes, see trustedFileSystems. A patch
// uses them once. A cancelled patch may write without a visible change of the inode, because small inodes store whole seconds only.

// keepHashes hashes the big files of the target that the next pass must compare and that this pass has not hashed. It ignores errors:
// the next pass then reads the file on both sides.
func (c *copier) keepHashes(ctx context.Context, k *firstPassState) {
	if !c.trust.usable || !c.tree.hasBig {
		return
	}
	for _, d := range c.tree.dirs {
		for e := range d.all() {
			if e.meta.isRegular() && c.isBig(e) && !c.keeper.has(e.meta.inode()) && !c.trust.isInSubvolume(&e.meta) && ctx.Err() == nil {
				c.keepFile(ctx, k, d, e)
			}
		}
	}
	k.kept = c.keeper.files
}

func (c *copier) keepFile(ctx context.Context, k *firstPassState, d *dir, e *entry) {
	fd, err := c.dst.open(d)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	file, err := openat(fd, e.name, unix.O_RDONLY, 0)
	if err != nil {
		return
	}
	defer unix.Close(file)
	st, err := fstat(file)
	have := metaOf(&st)
	if err != nil || !have.isRegular() || have.size < bigFileMin || dropPages(file) != nil {
		return
	}
	old := (*keptHashes)(nil)
	if c.last != nil {
		old = c.last.kept[e.meta.inode()]
	}
	sums := c.keeper.reserve(have.size)
	if sums == nil {
		return
	}
	p := c.keeper.patchOf(e.meta.inode())
	switch {
	case p != nil && p.targetAfter == have: // unchanged since the patch
		err = p.rehash(ctx, c.limit, file, have.size, sums)
	case old != nil && old.meta == have && !old.used.Load():
		copy(sums, old.sums)
	case k.isRecorded(&e.meta):
		err = errChanged // this process has not read it, and the next pass does not read it
	default:
		err = hashFileUnits(ctx, file, have.size, dataBytes(&st), c.limit, func(i int64, u sum) { sums[i] = u })
	}
	now, serr := fstat(file)
	if err != nil || serr != nil || metaOf(&now) != have {
		c.keeper.drop(sums)
		return
	}
	c.keeper.store(e.meta.inode(), have, sums)
}

// measureFirstPass computes the figures at the end of a first pass.
func (c *copier) measureFirstPass(ctx context.Context) error {
	k := c.newFirstPassState()
	c.keepHashes(ctx, k)
	if err := context.Cause(ctx); err != nil {
		return err
	}
	c.state, c.measured = k, c.figures(k)
	return nil
}

// figures returns the figures of a first pass. A final pass visits each entry twice, to copy it and to verify it. A
// first pass verifies only the entries that it can record, so the larger of both costs counts twice.
func (c *copier) figures(k *firstPassState) Figures {
	visit := max(c.cost.copy.metadata(), c.cost.check.metadata())
	return Figures{
		Scan: c.cost.scan, Metadata: c.cost.steps + 2*visit, Flush: c.cost.flush,
		Cost: costOf(&c.cost.copy, &c.cost.check), Remaining: k.remaining(c.tree),
	}
}
