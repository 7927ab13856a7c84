//go:build linux

package mover

import (
	"iter"
	"strings"
	"sync/atomic"
)

// entry is a name in a directory of the source.
type entry struct {
	name       string
	terminated string  // the name and a NUL, if the entry comes from a block
	sub        *dir    // nil unless it is a directory
	copied     *sum    // hash of what this pass has copied; nil if none is kept, see reserveCopiedSums
	known      *uint64 // of its block; nil if the entry does not come from a block
	knownBit   uint64
	meta       meta
}

// dir is a directory of the source. The package comment states its size.
type dir struct {
	parent   *dir        // nil for the root
	depth    int         // 0 for the root
	self     *entry      // the root's has the name ""
	blocks   []block     // the entries, sorted by name
	fresh    bool        // the target's directory was created, or found empty, by this run
	flags    uint32      // inode flags that are carried; after its preparation the root also has those of the target's root
	unread   atomic.Bool // see noteChange
	excluded bool        // later steps skip it: the target's directory cannot be used, for a collected reason
}

// count returns the number of entries.
func (d *dir) count() (n int) {
	for i := range d.blocks {
		n += d.blocks[i].count
	}
	return n
}

// exclude makes later steps skip a directory and everything below it.
func (d *dir) exclude() {
	d.excluded = true
	for sub := range d.subs() {
		sub.exclude()
	}
}

// path returns the path relative to the root, which is "" for the root itself.
func (d *dir) path() string {
	if d.parent == nil {
		return ""
	}
	var names []string
	length := 0
	for ; d.parent != nil; d = d.parent {
		names = append(names, d.self.name)
		length += len(d.self.name) + 1
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

// join returns the path of a name in d.
func (d *dir) join(name string) string {
	if d.parent == nil {
		return name
	}
	return d.path() + "/" + name
}

// subs yields the subdirectories.
func (d *dir) subs() iter.Seq[*dir] {
	return func(yield func(*dir) bool) {
		for i := range d.blocks {
			for _, sub := range d.blocks[i].subs {
				if !yield(sub) {
					return
				}
			}
		}
	}
}

// all yields the entries of a directory in the order of their names. An entry is valid until the next one.
func (d *dir) all() iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		var buf []entry
		for i := range d.blocks {
			buf = d.blocks[i].unpack(buf)
			for k := range buf {
				if !yield(&buf[k]) {
					return
				}
			}
		}
	}
}

// markKnown notes that an earlier pass verified a file and that this pass has found it unchanged on both sides. Nothing reads its contents.
func (e *entry) markKnown() { atomic.OrUint64(e.known, e.knownBit) }

func (e *entry) isKnown() bool { return e.known != nil && atomic.LoadUint64(e.known)&e.knownBit != 0 }

// copiedSum returns the hash of the contents that this pass has copied, if it is known. It is the hash of the file while its inode
// does not change. Files with extended attributes or inode flags have none.
func (e *entry) copiedSum() (s sum, known bool) {
	if e.copied == nil || *e.copied == (sum{}) {
		return sum{}, false
	}
	return *e.copied, true
}

// bigFileMin is the minimum size of a big file. In two passes, only the differing blocks of a big file are written,
// under its final name. A run that dies may leave a mixture of old and new blocks. The next run recognizes it: the
// file's time is set last, and no record contains its inode in that state.
const bigFileMin = 1 << 20
