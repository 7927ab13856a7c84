//go:build linux

package mover

import "sync/atomic"

// linkName is one name of a group.
type linkName struct {
	dir  *dir
	name string
}

func (m linkName) path() string { return m.dir.join(m.name) }

// group is the set of names of one inode within the tree. The first name, by path, is copied. The others are hard links
// to it.
type group struct {
	names  []linkName
	failed atomic.Bool   // the first name could not be copied, so there is nothing to link to
	inode  atomic.Uint64 // inode in the target that verification saw first
}

// isLeader reports whether an entry of a directory has the first name of the group.
func (g *group) isLeader(d *dir, e *entry) bool {
	return g.names[0].dir == d && g.names[0].name == e.name
}

// linkCount returns how many names the inode must have in the target.
func (g *group) linkCount() uint32 {
	if g == nil {
		return 1
	}
	return uint32(len(g.names))
}

// isFirstInode reports whether a name of the target has the inode that was seen first for its group.
func (g *group) isFirstInode(ino uint64) bool {
	return g.inode.CompareAndSwap(0, ino) || g.inode.Load() == ino
}

// differences lists in phrases how an entry of the target differs from the source. The target of a first pass may have more names than the
// source: where a file changes during the pass, its name keeps the link of an earlier pass. Such a name is compared by itself.
func differences(src, dst *snapshot, g *group, firstPass bool) []string {
	found := attributeDifferences(&src.meta, &dst.meta)
	note := phraseCollector(&found)
	note(src.link != dst.link, "it has another link target")
	note(!sameXattrs(src.attrs, dst.attrs), "its extended attributes differ")
	note(src.flags != dst.flags, "its inode flags (chattr) are %q, not %q", flagNames(dst.flags), flagNames(src.flags))
	if !src.meta.isDir() {
		hasMore := dst.meta.nlink > g.linkCount() && !firstPass
		note(hasMore || dst.meta.nlink < g.linkCount(), "it has %d names, not %d", dst.meta.nlink, g.linkCount())
		note(g != nil && !g.isFirstInode(dst.meta.ino), "it is not hard linked with the other names")
	}
	return found
}
