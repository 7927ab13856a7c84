//go:build linux

package mover

import (
	"context"

	"golang.org/x/sys/unix"
)

// A first pass keeps hashes of the big files in the target, in the memory of its process. The next pass of this process
// compares them with the source, and reads only those units of the target that differ.
//
// The hashes are of contents that were read from the target's device after a flush. They say nothing of the source, so it
// does not matter whether the source changed at that time, or whether the copy was right. They hold while the target's inode
// has not changed, see trustedFileSystems. A patch uses them once: if it is cancelled, it may leave the inode as it was, because
// small inodes show only seconds.

// keptFor returns the hashes of an open file of the target, if they are valid for its inode.
func (c *copier) keptFor(e *entry, out int) *keptHashes {
	if c.last == nil || c.twoPass.id.boot == "" || c.isInSubvolume(&e.meta) {
		return nil
	}
	k := c.last.kept[e.meta.inode()]
	if k == nil || k.used.Swap(true) {
		return nil
	}
	st, err := fstat(out)
	if err != nil || metaOf(&st) != k.meta {
		return nil
	}
	return k
}

// keepHashes reads the big files of the target that the next pass will have to compare, from their device, unless this pass
// has their hashes. Errors do not matter: such a file is compared on both sides.
func (c *copier) keepHashes(ctx context.Context, k *firstPassState) {
	if c.twoPass.id.boot == "" || !c.tree.hasBig {
		return
	}
	for _, d := range c.tree.dirs {
		for e := range d.all() {
			if e.meta.isRegular() && c.isBig(e) && !c.keeper.has(e.meta.inode()) && !c.isInSubvolume(&e.meta) && ctx.Err() == nil {
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
	if err != nil || !have.isRegular() || have.size < bigFileMin || unix.Fadvise(file, 0, 0, unix.FADV_DONTNEED) != nil {
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
	case p != nil && p.targetAfter == have: // nothing has changed it since
		err = p.rehash(ctx, c.limit, file, have.size, sums)
	case old != nil && old.meta == have && !old.used.Load():
		copy(sums, old.sums)
	case k.isRecorded(&e.meta):
		err = errChanged // it was not read by this process; the next pass does not read it, either
	default:
		calls := hashing{read: func(n int64) { c.limit.wait(ctx, n) }, unit: func(i int64, u sum) { sums[i] = u }}
		_, err = hashContents(ctx, file, have.size, dataBytes(&st), calls)
	}
	now, serr := fstat(file)
	if err != nil || serr != nil || metaOf(&now) != have {
		c.keeper.drop(sums)
		return
	}
	c.keeper.store(e.meta.inode(), have, sums)
}
