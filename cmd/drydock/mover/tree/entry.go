//go:build linux

package tree

import (
	"iter"
	"strings"
	"sync/atomic"

	"drydock.dev/cmd/drydock/mover/fsys"
	"drydock.dev/cmd/drydock/mover/units"
)

// Entry is a name in a directory of the source.
type Entry struct {
	Name       string
	Terminated string     // the name and a NUL, if the entry comes from a block
	Sub        *Dir       // nil unless it is a directory
	Copied     *units.Sum // hash of what this pass has copied; nil if none is kept, see write.Files
	known      *uint64    // of its block; nil if the entry does not come from a block
	knownBit   uint64
	Meta       fsys.Meta
}

// Dir is a directory of the source. The package comment states its size.
type Dir struct {
	Parent   *Dir        // nil for the root
	Depth    int         // 0 for the root
	Self     *Entry      // the root's has the name ""
	Blocks   []Block     // the entries, sorted by name
	Fresh    bool        // the target's directory was created, or found empty, by this run
	Flags    uint32      // inode flags that are carried; after its preparation the root also has those of the target's root
	Unread   atomic.Bool // see NoteChange
	Excluded bool        // later steps skip it: the target's directory cannot be used, for a collected reason
}

// Count returns the number of entries.
func (d *Dir) Count() (n int) {
	for i := range d.Blocks {
		n += d.Blocks[i].Count
	}
	return n
}

// Exclude makes later steps skip a directory and everything below it.
func (d *Dir) Exclude() {
	d.Excluded = true
	for sub := range d.Subs() {
		sub.Exclude()
	}
}

// Path returns the path relative to the root, which is "" for the root itself.
func (d *Dir) Path() string {
	if d.Parent == nil {
		return ""
	}
	var names []string
	length := 0
	for ; d.Parent != nil; d = d.Parent {
		names = append(names, d.Self.Name)
		length += len(d.Self.Name) + 1
	}
	var b strings.Builder
	b.Grow(length)
	for i := len(names) - 1; i >= 0; i-- {
		b.WriteString(names[i])
		if i > 0 {
			b.WriteByte('/')
		}
	}
	return b.String()
}

// Join returns the path of a name in d.
func (d *Dir) Join(name string) string {
	if d.Parent == nil {
		return name
	}
	return d.Path() + "/" + name
}

// Subs yields the subdirectories.
func (d *Dir) Subs() iter.Seq[*Dir] {
	return func(yield func(*Dir) bool) {
		for i := range d.Blocks {
			for _, sub := range d.Blocks[i].Subs {
				if !yield(sub) {
					return
				}
			}
		}
	}
}

// All yields the entries of a directory in the order of their names. An entry is valid until the next one.
func (d *Dir) All() iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		var buf []Entry
		for i := range d.Blocks {
			buf = d.Blocks[i].Unpack(buf)
			for k := range buf {
				if !yield(&buf[k]) {
					return
				}
			}
		}
	}
}

// MarkKnown notes that an earlier pass verified a file and that this pass has found it unchanged on both sides. Nothing reads its contents.
func (e *Entry) MarkKnown() { atomic.OrUint64(e.known, e.knownBit) }

func (e *Entry) IsKnown() bool { return e.known != nil && atomic.LoadUint64(e.known)&e.knownBit != 0 }

// CopiedSum returns the hash of the contents that this pass has copied, if it is known. It is the hash of the file while its inode
// does not change. Files with extended attributes or inode flags have none.
func (e *Entry) CopiedSum() (s units.Sum, known bool) {
	if e.Copied == nil || *e.Copied == (units.Sum{}) {
		return units.Sum{}, false
	}
	return *e.Copied, true
}

// BigFileMin is the minimum size of a big file. In two passes, only the differing blocks of a big file are written,
// under its final name. A run that dies may leave a mixture of old and new blocks. The next run recognizes it: the
// file's time is set last, and no record contains its inode in that state.
const BigFileMin = 1 << 20

// LinkName is one name of a group.
type LinkName struct {
	Dir  *Dir
	Name string
}

func (m LinkName) Path() string { return m.Dir.Join(m.Name) }

// Group is the set of names of one inode within the tree. The first name, by path, is copied. The others are hard links
// to it.
type Group struct {
	Names  []LinkName
	Failed atomic.Bool   // the first name could not be copied, so there is nothing to link to
	inode  atomic.Uint64 // inode in the target that verification saw first
}

// IsLeader reports whether an entry of a directory has the first name of the group.
func (g *Group) IsLeader(d *Dir, e *Entry) bool {
	return g.Names[0].Dir == d && g.Names[0].Name == e.Name
}

// linkCount returns how many names the inode must have in the target.
func (g *Group) linkCount() uint32 {
	if g == nil {
		return 1
	}
	return uint32(len(g.Names))
}

// isFirstInode reports whether a name of the target has the inode that was seen first for its group.
func (g *Group) isFirstInode(ino uint64) bool {
	return g.inode.CompareAndSwap(0, ino) || g.inode.Load() == ino
}

// Differences lists in phrases how an entry of the target differs from the source. The target of a first pass may have more names than the
// source: where a file changes during the pass, its name keeps the link of an earlier pass. Such a name is compared by itself.
func Differences(src, dst *fsys.Snapshot, g *Group, firstPass bool) []string {
	found := fsys.AttributeDifferences(&src.Meta, &dst.Meta)
	note := fsys.PhraseCollector(&found)
	note(src.Link != dst.Link, "it has another link target")
	note(!fsys.SameXattrs(src.Attrs, dst.Attrs), "its extended attributes differ")
	note(src.Flags != dst.Flags, "its inode flags (chattr) are %q, not %q", fsys.FlagNames(dst.Flags), fsys.FlagNames(src.Flags))
	if !src.Meta.IsDir() {
		hasMore := dst.Meta.Nlink > g.linkCount() && !firstPass
		note(hasMore || dst.Meta.Nlink < g.linkCount(), "it has %d names, not %d", dst.Meta.Nlink, g.linkCount())
		note(g != nil && !g.isFirstInode(dst.Meta.Ino), "it is not hard linked with the other names")
	}
	return found
}
