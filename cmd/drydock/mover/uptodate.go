//go:build linux

package mover

import (
	"context"
	"time"

	"golang.org/x/sys/unix"
)

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
