//go:build linux

package mover

import (
	"fmt"
	"strings"
)

// differenceError returns an error for an entry of the target with differences, or nil if there are none.
func differenceError(path string, differences []string) error {
	if len(differences) == 0 {
		return nil
	}
	return &fault{target, "comparing", path, mismatch(strings.Join(differences, ", "))}
}

// differences lists in phrases how an entry of the target differs from the source. The target of a first pass may have more names than the
// source: where a file changes during the pass, its name keeps the link of an earlier pass. Such a name is compared by itself.
func differences(src, dst *snapshot, g *group, firstPass bool) []string {
	found := attributeDifferences(&src.meta, &dst.meta)
	note := phraseCollector(&found)
	note(src.link != dst.link, "it has another link target")
	note(src.content != dst.content, "its contents differ")
	note(!sameXattrs(src.attrs, dst.attrs), "its extended attributes differ")
	note(src.flags != dst.flags, "its inode flags (chattr) are %q, not %q", flagNames(dst.flags), flagNames(src.flags))
	if !src.meta.isDir() {
		hasMore := dst.meta.nlink > g.linkCount() && !firstPass
		note(hasMore || dst.meta.nlink < g.linkCount(), "it has %d names, not %d", dst.meta.nlink, g.linkCount())
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
func (c *copier) invalidate(dirfd int, e *entry) { c.invalidateObject(named(dirfd, e.name), e) }

func (c *copier) invalidateObject(o object, e *entry) {
	if e.meta.isRegular() && c.checkOwned() == nil {
		stale := meta{mtimeSec: e.meta.mtimeSec - 1}
		_ = o.setTimes(stale.times())
	}
}
