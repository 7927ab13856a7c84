//go:build linux

package mover

import (
	"context"
	"fmt"
	"strings"
)

// verify reads both trees, compares them and collects the differences.
func (c *copier) verify(ctx context.Context) error {
	s := c.newHasher()
	if err := s.run(ctx, c.workers); err != nil {
		return err
	}
	if err := c.problems.collect(c.verifyRoot()); err != nil {
		return err
	}
	if err := c.problems.err(); err != nil {
		return err
	}
	a, b := s.digest(source), s.digest(target)
	if a != b { // impossible unless the comparison is broken
		return &fault{target, "comparing", "", mismatch("its digest is " + b + ", not " + a)}
	}
	c.digest = a
	return nil
}

// newHasher returns a hasher of both sides. It does not read files that an earlier pass verified.
func (c *copier) newHasher() *treeHasher {
	return &treeHasher{
		tree: c.tree, sides: []*root{c.src, c.dst}, meter: c.meter, problems: &c.problems,
		isOwnName: c.isOwnName, verifiedContents: c.verifiedContents, trusted: c.countTrusted, effort: &c.cost.check, limit: c.limit,
	}
}

// countTrusted counts a file that was not read. The bytes of hard links count once.
func (c *copier) countTrusted(g *group, e *entry, bytes int64) {
	c.trustedFiles.Add(1)
	if g == nil || g.isLeader(e) {
		c.trustedBytes.Add(bytes)
	}
}

// mismatch returns an error that says what differs.
func mismatch(what string) error { return fmt.Errorf("%w: %s", errMismatch, what) }

// differenceError returns an error that lists how an entry of the target differs from the source, or nil.
func differenceError(path string, src, dst *snapshot, g *group) error {
	found := differences(src, dst, g)
	if len(found) == 0 {
		return nil
	}
	return &fault{target, "comparing", path, mismatch(strings.Join(found, ", "))}
}

// differences lists in phrases how an entry of the target differs from the source.
func differences(src, dst *snapshot, g *group) []string {
	found := attributeDifferences(&src.meta, &dst.meta)
	note := phraseCollector(&found)
	note(src.link != dst.link, "it has another link target")
	note(src.content != dst.content, "its contents differ")
	note(!sameXattrs(src.attrs, dst.attrs), "its extended attributes differ")
	if !src.meta.isDir() {
		note(dst.meta.nlink != g.linkCount(), "it has %d names, not %d", dst.meta.nlink, g.linkCount())
		note(g != nil && !g.isFirstInode(dst.meta.ino), "it is not hard linked with the other names")
	}
	return found
}

// attributeDifferences lists the differences in the attributes that sameAttributes compares.
func attributeDifferences(a, b *meta) (found []string) {
	note := phraseCollector(&found)
	note(a.kind() != b.kind(), "its type is 0%o, not 0%o", b.kind(), a.kind())
	note(a.permissions() != b.permissions(), "its mode is 0%o, not 0%o", b.permissions(), a.permissions())
	note(a.uid != b.uid || a.gid != b.gid, "its owner is %d:%d, not %d:%d", b.uid, b.gid, a.uid, a.gid)
	note(a.size != b.size, "its size is %d, not %d", b.size, a.size)
	note(a.mtimeSec != b.mtimeSec || a.mtimeNsec != b.mtimeNsec,
		"its time is %d.%09d, not %d.%09d", b.mtimeSec, b.mtimeNsec, a.mtimeSec, a.mtimeNsec)
	return found
}

// phraseCollector returns a function that adds a phrase if something differs.
func phraseCollector(found *[]string) func(differs bool, format string, args ...any) {
	return func(differs bool, format string, args ...any) {
		if differs {
			*found = append(*found, fmt.Sprintf(format, args...))
		}
	}
}

// invalidate makes the next run copy a file again whose contents turned out to be wrong although its attributes are
// right. It changes the file's time. The call may fail; that is why --checksum exists.
func invalidate(dirfd int, e *entry) {
	if !e.meta.isRegular() {
		return
	}
	stale := meta{mtimeSec: e.meta.mtimeSec - 1}
	_ = named(dirfd, e.name).setTimes(stale.times())
}
