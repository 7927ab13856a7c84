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

// pair is a directory that is open on both sides.
type pair struct {
	dir      *dir
	src, dst int
}

func (c *copier) openPair(d *dir) (pair, error) {
	src, err := c.src.open(d)
	if err != nil {
		return pair{}, &fault{source, "opening the directory", d.path(), err}
	}
	dst, err := c.dst.open(d)
	if err != nil {
		unix.Close(src)
		return pair{}, &fault{target, "opening the directory", d.path(), err}
	}
	return pair{d, src, dst}, nil
}

func (p pair) close() {
	unix.Close(p.src)
	unix.Close(p.dst)
}

// fault returns an error with an entry of the pair.
func (p pair) fault(s side, op string, e *entry, err error) error {
	return &fault{s, op, p.dir.join(e.name), err}
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

// isUpToDate reports whether the target has the entry already: by attributes and, if the options demand it, by contents.
// The names of an entry must share an inode exactly as in the source.
func (c *copier) isUpToDate(ctx context.Context, at pair, e *entry, g *group) (bool, error) {
	if at.dir.fresh {
		return false, nil
	}
	st, err := lstatat(at.dst, e.name)
	if err == unix.ENOENT {
		return false, nil
	}
	if err != nil {
		return false, at.fault(target, "looking at", e, err)
	}
	have := metaOf(&st)
	if !sameAttributes(&e.meta, &have) || !c.isOwnInode(&have, g) {
		return false, nil
	}
	now, err := lstatat(at.src, e.name)
	if err != nil {
		return false, at.fault(source, "looking at", e, err)
	}
	if metaOf(&now) != e.meta {
		return false, at.fault(source, "looking at", e, errChanged)
	}
	same, err := c.sameDetails(ctx, at, e, &have)
	if same {
		c.meter.bytes.Add(dataBytes(&now))
	}
	return same, err
}

// isOwnInode reports whether a name without hard links has a separate inode, or whether no other group uses the inode of
// a name with hard links.
func (c *copier) isOwnInode(have *meta, g *group) bool {
	if g == nil {
		return have.nlink == 1
	}
	keeper, _ := c.inodeOwners.LoadOrStore(have.inode(), g)
	return keeper == g
}

// sameDetails compares what stat does not show.
func (c *copier) sameDetails(ctx context.Context, at pair, e *entry, have *meta) (bool, error) {
	want, err := named(at.src, e.name).xattrs(nil)
	if err != nil {
		return false, at.fault(source, "reading extended attributes of", e, err)
	}
	attrs, err := named(at.dst, e.name).xattrs(nil)
	if err != nil {
		return false, at.fault(target, "reading extended attributes of", e, err)
	}
	switch {
	case !sameXattrs(want, attrs):
		return false, nil
	case e.meta.isSymlink():
		return c.sameLink(at, e)
	case e.meta.isRegular() && c.mustCompare(at.dir, e, have):
		// A patch compares the contents of a big file, and writes nothing if they are equal.
		if same, err := c.sameFlags(ctx, at, e); err != nil || !same || c.isBig(e) {
			return false, err
		}
		began := time.Now()
		defer func() { c.cost.copy.contents(e.meta.size, e.meta.size, began) }()
		return c.sameContents(ctx, at, e)
	}
	return true, nil
}

// mustCompare reports whether a file with equal attributes has to be read to prove that it is equal.
func (c *copier) mustCompare(d *dir, e *entry, have *meta) bool {
	if _, known := c.verifiedContents(d, e, have); known {
		return false
	}
	return c.checksum || !c.attributesSuffice(e, have)
}

func (c *copier) sameLink(at pair, e *entry) (bool, error) {
	want, err := readlinkat(at.src, e.name)
	if err != nil {
		return false, at.fault(source, "reading the link", e, err)
	}
	have, err := readlinkat(at.dst, e.name)
	if err != nil {
		return false, at.fault(target, "reading the link", e, err)
	}
	return want == have, nil
}

// sameContents reads both sides. A file in the target that cannot be read counts as different, so it is replaced.
func (c *copier) sameContents(ctx context.Context, at pair, e *entry) (bool, error) {
	want, err := hashFile(ctx, at.src, e.name)
	if err != nil {
		return false, at.fault(source, "reading", e, err)
	}
	have, err := hashFile(ctx, at.dst, e.name)
	c.limit.wait(ctx, 2*e.meta.size)
	return err == nil && want == have, context.Cause(ctx)
}
