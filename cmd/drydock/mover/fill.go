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
	case e.meta.isRegular() && c.mustCompare(e, have):
		// A patch compares the contents of a big file, and writes nothing if they are equal.
		if same, err := c.sameFlags(ctx, at, e); err != nil || !same || c.isBig(e) {
			return false, err
		}
		began := time.Now()
		defer func() { c.cost.copy.contents(e.meta.size, e.meta.size, began) }()
		return c.sameContents(ctx, at, e)
	case e.meta.isRegular() && c.pass == PassWhole: // in the other passes, the change time shows a change of the flags
		return c.sameFlags(ctx, at, e)
	}
	return true, nil
}

// mustCompare reports whether a file with equal attributes has to be read to prove that it is equal.
func (c *copier) mustCompare(e *entry, have *meta) bool {
	if _, ok := c.verified(e, *have); ok {
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

// A pass with the record of an earlier one presumes that the target still has the recorded file, if the source looks as it
// did. So it does not look at these entries of the target before it copies the others. The verification looks at all of
// them. If a presumption is wrong there, the pass is repeated without any. A pass without verification presumes nothing.

// presumes reports whether the target presumably has a file.
func (c *copier) presumes(d *dir, e *entry) bool {
	return c.twoPass.presume && !d.fresh && c.presumesFile(&e.meta)
}

// presumesFile reports whether a file looks as it did when it was recorded.
func (c *copier) presumesFile(m *meta) bool {
	return m.isRegular() && m.nlink == 1 && !c.isInSubvolume(m) && c.twoPass.earlier.expects(m)
}

// skipsBlock reports whether all files of a block are presumed, and counts them.
func (c *copier) skipsBlock(d *dir, b *block) bool {
	if !c.twoPass.presume || d.fresh || !b.isPresumed() {
		return false
	}
	c.countPresumed(int64(b.presumed), b.bytes)
	return true
}

func (c *copier) countPresumed(files, bytes int64) {
	if files > 0 {
		c.skipped.Add(files)
		c.meter.files.Add(files)
		c.meter.bytes.Add(bytes)
	}
}

// presumesDir reports whether a directory of the target presumably has no extra names, no fewer subdirectories and the right
// attributes. The root changes with each pass.
func (c *copier) presumesDir(d *dir) bool {
	return c.twoPass.presume && d.parent != nil && !d.fresh && !c.isInSubvolume(&d.self.meta) && c.twoPass.earlier.expects(&d.self.meta)
}

// judge notes a difference that contradicts a presumption. e is nil for a directory.
func (c *copier) judge(d *dir, e *entry, err error) {
	if !c.twoPass.presume || kindOf(err) == kindChanged || kindOf(err) == kindStopped {
		return
	}
	if d.presumed || e != nil && c.presumes(d, e) {
		c.twoPass.misjudged.Store(true)
	}
}

// stampResolution is longer than the time between two stamps of the kernel, and coarseResolution than a second, which is the
// resolution of small inodes.
const (
	stampResolution  = 50 * time.Millisecond
	coarseResolution = 1100 * time.Millisecond
)

// sourceIsSettled reports whether nothing had changed in the source for a moment when a final pass began its scan. Then a
// recorded file needs no second look in the verification. Each recorded file was unchanged from its record to the scan, and
// every other file is checked again, so all files had the verified contents at the moment when the scan began.
func (c *copier) sourceIsSettled() bool {
	if c.pass != PassFinal || c.twoPass.earlier == nil {
		return false
	}
	newest := c.tree.newest
	resolution := stampResolution
	if newest.nsec == 0 {
		resolution = coarseResolution
	}
	return newest.before(unixTimeOf(c.scanBegan.Add(-resolution)))
}
