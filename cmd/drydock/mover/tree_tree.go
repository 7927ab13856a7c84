//go:build linux

package mover

import (
	"context"
	"sort"
)

// tree is the result of a scan.
type tree struct {
	top    *dir
	dirs   []*dir           // parents before their children
	groups map[inode]*group // inodes with two or more names in the tree
	hasBig bool             // there is a big file
	newest unixTime         // the latest change time of an entry
	nested []string         // directories that are subvolumes
	sparse map[inode]int64  // data bytes of big files with holes
}

// sortGroups sorts the names of each group. It drops groups with only one name inside the tree.
func (t *tree) sortGroups() {
	for id, g := range t.groups {
		if len(g.names) == 1 {
			delete(t.groups, id)
			continue
		}
		sort.Slice(g.names, func(i, j int) bool { return g.names[i].path() < g.names[j].path() })
	}
}

// groupOf returns nil for an entry with a single name in the tree.
func (t *tree) groupOf(e *entry) *group {
	if e.sub != nil || e.meta.nlink == 1 {
		return nil
	}
	return t.groups[e.meta.inode()]
}

// countEntries returns the number of entries in the tree.
func (t *tree) countEntries() int64 {
	var n int64
	for _, d := range t.dirs {
		n += int64(d.count())
	}
	return n
}

// dataSize estimates how many bytes of a regular file are outside of holes. It is exact enough for big files only.
func (t *tree) dataSize(e *entry) int64 {
	if e.meta.size < bigFileMin {
		return e.meta.size
	}
	if data, known := t.sparse[e.meta.inode()]; known {
		return data
	}
	return e.meta.size
}

// orderDirs lists the directories so that parents come first.
func (t *tree) orderDirs(top *dir) {
	t.dirs = append(t.dirs, top)
	for i := 0; i < len(t.dirs); i++ {
		for sub := range t.dirs[i].subs() {
			t.dirs = append(t.dirs, sub)
		}
	}
}

// eachChunk calls f for all entries, one chunk after the other, on several workers. At any time, only a few directories are unpacked.
func (t *tree) eachChunk(ctx context.Context, workers int, f func(ctx context.Context, d *dir, entries []entry) error) error {
	return runPool(ctx, workers, func(p *pool) {
		for i := len(t.dirs) - 1; i >= 0; i-- { // the pool takes the last first
			if d := t.dirs[i]; !d.excluded && len(d.blocks) > 0 {
				p.add(func(ctx context.Context) error { return workOnBlocks(ctx, p, d, 0, f) })
			}
		}
	})
}

// finder finds names in a directory. It is fast if they come in their order.
type finder struct {
	dir     *dir
	block   int
	entries []entry // of this block; nil before the first search
	next    int     // the entry after the last result
}

// find returns the entry of a name, or nil if the source has no such name. It is valid until the next search.
func (f *finder) find(name string) *entry {
	if f.next < len(f.entries) && f.entries[f.next].name == name {
		f.next++
		return &f.entries[f.next-1]
	}
	i := f.blockOf(name)
	if i < 0 {
		return nil
	}
	if f.entries == nil || i != f.block {
		f.block, f.entries = i, f.dir.blocks[i].unpack(f.entries)
	}
	lo, hi := 0, len(f.entries)
	for lo < hi {
		if mid := (lo + hi) / 2; f.entries[mid].name < name {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo < len(f.entries) && f.entries[lo].name == name {
		f.next = lo + 1
		return &f.entries[lo]
	}
	return nil
}

// blockOf returns the block that may have the name, or -1.
func (f *finder) blockOf(name string) int {
	blocks := f.dir.blocks
	isIn := func(i int) bool {
		return string(blocks[i].firstName()) <= name && (i+1 == len(blocks) || name < string(blocks[i+1].firstName()))
	}
	if f.entries != nil && isIn(f.block) {
		return f.block
	}
	lo, hi := 0, len(blocks) // the first block that begins after the name
	for lo < hi {
		if mid := (lo + hi) / 2; string(blocks[mid].firstName()) <= name {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo - 1
}

// find returns the entry of a name, or nil if the source has no such name.
func (d *dir) find(name string) *entry {
	f := finder{dir: d}
	return f.find(name)
}

// A chunk is a range of the entries of a block for one worker, limited by bytes and, in a directory with one block, by the
// number of names. So several workers share a small directory on slow storage.
const (
	chunkBytes   = 8 << 20
	chunkEntries = 32
)

// chunkLimit returns the number of names in a chunk.
func (d *dir) chunkLimit() int {
	if len(d.blocks) == 1 {
		return chunkEntries
	}
	return blockEntries
}

// eachChunk yields ranges that cover all entries of a block. Large files end up in separate chunks, so that they do not wait for
// each other.
func eachChunk(entries []entry, limit int, yield func(lo, hi int)) {
	lo, bytes := 0, int64(0)
	for i := range entries {
		if entries[i].meta.isRegular() {
			bytes += entries[i].meta.size
		}
		if i+1-lo >= limit || bytes >= chunkBytes {
			yield(lo, i+1)
			lo, bytes = i+1, 0
		}
	}
	if lo < len(entries) {
		yield(lo, len(entries))
	}
}

// workOnBlocks works on a block of a directory. Before that, it adds a task for the blocks after it.
func workOnBlocks(ctx context.Context, p *pool, d *dir, i int, f func(ctx context.Context, d *dir, entries []entry) error) error {
	if i+1 < len(d.blocks) {
		p.add(func(ctx context.Context) error { return workOnBlocks(ctx, p, d, i+1, f) })
	}
	buf := entryBuffers.Get()
	entries := d.blocks[i].unpack(buf[:])
	shared := false
	var err error
	eachChunk(entries, d.chunkLimit(), func(lo, hi int) {
		if hi == len(entries) { // this worker takes the last chunk, which is usually the only one
			err = f(ctx, d, entries[lo:hi])
			return
		}
		shared = true
		p.add(func(ctx context.Context) error { return f(ctx, d, entries[lo:hi]) })
	})
	if !shared {
		entryBuffers.Put(buf)
	}
	return err
}
