//go:build linux

package mover

import (
	"context"
	"fmt"
	"strings"
)

// verify reads both trees and compares them. Differences are collected.
func (c *copier) verify(ctx context.Context) error {
	s := c.summer()
	if err := s.run(ctx, c.workers); err != nil {
		return err
	}
	if err := c.problems.tolerate(c.verifyRoot()); err != nil {
		return err
	}
	if err := c.problems.err(); err != nil {
		return err
	}
	a, b := s.digest(source), s.digest(target)
	if a != b { // cannot be, if the comparison is worth anything
		return &fault{target, "comparing", "", mismatch("its digest is " + b + ", not " + a)}
	}
	c.digest = a
	return nil
}

// summer reads both sides, but for what is known of them.
func (c *copier) summer() *summer {
	return &summer{
		tree: c.tree, sides: []*root{c.src, c.dst}, meter: c.meter, problems: &c.problems,
		keeps: c.keeps, unread: c.unread, saved: c.saved, effort: &c.cost.check, limit: c.limit,
	}
}

// saved counts what was not read. Bytes of linked names count once.
func (c *copier) saved(g *group, e *entry, bytes int64) {
	c.trustedFiles.Add(1)
	if g == nil || g.leads(e) {
		c.trustedBytes.Add(bytes)
	}
}

// mismatch is an error that says what differs.
func mismatch(what string) error { return fmt.Errorf("%w: %s", errMismatch, what) }

// differ returns nil, or what differs between an entry of the source and of the target.
func differ(path string, src, dst *looks, g *group) error {
	found := differences(src, dst, g)
	if len(found) == 0 {
		return nil
	}
	return &fault{target, "comparing", path, mismatch(strings.Join(found, ", "))}
}

// differences lists what differs, in phrases.
func differences(src, dst *looks, g *group) []string {
	found := attributeDifferences(&src.meta, &dst.meta)
	note := noter(&found)
	note(src.link != dst.link, "it points elsewhere")
	note(src.content != dst.content, "its contents differ")
	note(!sameXattrs(src.attrs, dst.attrs), "its extended attributes differ")
	if !src.meta.isDir() {
		note(dst.meta.nlink != g.links(), "it has %d names, not %d", dst.meta.nlink, g.links())
		note(g != nil && !g.isFirstInode(dst.meta.ino), "it is not linked with the others")
	}
	return found
}

// attributeDifferences lists what differs of what sameAttributes compares.
func attributeDifferences(a, b *meta) (found []string) {
	note := noter(&found)
	note(a.kind() != b.kind(), "its type is 0%o, not 0%o", b.kind(), a.kind())
	note(a.permissions() != b.permissions(), "its mode is 0%o, not 0%o", b.permissions(), a.permissions())
	note(a.uid != b.uid || a.gid != b.gid, "its owner is %d:%d, not %d:%d", b.uid, b.gid, a.uid, a.gid)
	note(a.size != b.size, "its size is %d, not %d", b.size, a.size)
	note(a.mtimeSec != b.mtimeSec || a.mtimeNsec != b.mtimeNsec,
		"its time is %d.%09d, not %d.%09d", b.mtimeSec, b.mtimeNsec, a.mtimeSec, a.mtimeNsec)
	return found
}

// noter returns a function that adds a phrase if something differs.
func noter(found *[]string) func(differs bool, format string, args ...any) {
	return func(differs bool, format string, args ...any) {
		if differs {
			*found = append(*found, fmt.Sprintf(format, args...))
		}
	}
}

// invalidate makes sure that the next run copies a file again whose contents turned out to be wrong, although nothing
// that a quick look sees is. It changes the time; that it may fail is the reason for --checksum.
func invalidate(dirfd int, e *entry) {
	if !e.meta.isRegular() {
		return
	}
	stale := meta{mtimeSec: e.meta.mtimeSec - 1}
	_ = named(dirfd, e.name).setTimes(stale.times())
}
