//go:build linux

package mover

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// fill copies everything except directories and further names of hard links.
func (c *copier) fill(ctx context.Context) error {
	c.reserveCopiedSums()
	return c.tree.eachChunk(ctx, c.workers, c.fillChunk)
}

func (c *copier) fillChunk(ctx context.Context, d *dir, entries []entry) error {
	defer c.cost.copy.task(time.Now())
	entries = c.skipKnown(d, entries)
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
	if err := c.checkOwned(); err != nil {
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

// skipKnown removes directories and the files that an earlier pass verified and that are unchanged on both sides. It looks at the target
// once, before anything is written there, and marks these files for the verification. A first pass records them again. It overwrites the
// slice.
func (c *copier) skipKnown(d *dir, entries []entry) []entry {
	dirfd := -1
	if c.trust.earlier != nil && !d.fresh {
		if fd, err := c.dst.open(d); err == nil { // an error comes again when the first entry is copied
			dirfd = fd
			defer unix.Close(fd)
		}
	}
	left, skipped, bytes, next := entries[:0], int64(0), int64(0), 0
	for i := range entries {
		e := &entries[i]
		if e.sub != nil {
			continue
		}
		data, known := int64(0), false
		if dirfd >= 0 {
			data, known = c.isUnchanged(d, dirfd, e, &next)
		}
		if !known {
			left = append(left, *e)
			continue
		}
		e.markKnown()
		skipped++
		bytes += data
	}
	if skipped > 0 { // workers would wait for each other if each file did that
		c.skipped.Add(skipped)
		c.trust.files.Add(skipped)
		c.trust.bytes.Add(bytes)
		c.meter.files.Add(skipped)
		c.meter.bytes.Add(bytes)
	}
	return left
}

// isUnchanged reports whether an earlier pass verified a file without extended attributes and other names, and both inodes look as they
// did then. Both sides had no such attributes then, and adding one changes ctime. It returns the data bytes of the target's file. next is
// the place in the record where the file probably is.
func (c *copier) isUnchanged(d *dir, dirfd int, e *entry, next *int) (data int64, known bool) {
	t := &c.trust
	if !e.meta.isRegular() || e.meta.nlink != 1 || t.isInSubvolume(&e.meta) || t.pass == PassFirst && !t.isRecordable(d, e, nil) {
		return 0, false
	}
	at := t.earlier.search(e.meta.ino, *next)
	if at < 0 {
		return 0, false
	}
	*next = at + 1
	have, err := statIn(dirfd, e)
	if err != nil || have.meta.nlink != 1 || !sameAttributes(&e.meta, &have.meta) {
		return 0, false
	}
	if plain, ok := t.earlier.files[at].holds(&e.meta, &have.meta); !ok || !plain {
		return 0, false
	}
	if t.pass == PassFirst {
		if c.hooks.confirmed != nil {
			c.hooks.confirmed(d.join(e.name))
		}
		t.current.add(&e.meta, &have.meta, true, have.data)
	}
	return have.data, true
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
	if _, ok := c.trust.verified(e, have); ok {
		return false
	}
	return c.checksum || !c.trust.attributesSuffice(e, have)
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
	in, err := openat(at.src, e.name, unix.O_RDONLY, 0)
	if err != nil {
		return false, at.fault(source, "opening", e, err)
	}
	defer unix.Close(in)
	out, err := openat(at.dst, e.name, unix.O_RDONLY, 0)
	if err != nil {
		return false, context.Cause(ctx)
	}
	defer unix.Close(out)
	same, err := (&comparison{fds: [2]int{in, out}, size: e.meta.size, limit: c.limit}).run(ctx)
	if f := (*sideError)(nil); errors.As(err, &f) {
		if f.side == target {
			return false, context.Cause(ctx)
		}
		err = at.fault(source, "reading", e, f.err)
	}
	return same, err
}
