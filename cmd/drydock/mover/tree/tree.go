//go:build linux

// Package tree scans the source and keeps all its entries in memory. The scan defines the copy.
package tree

import (
	"context"
	"sort"

	"drydock.dev/cmd/drydock/mover/fsys"
	"drydock.dev/cmd/drydock/mover/pool"
)

// Tree is the result of a scan.
type Tree struct {
	Top    *Dir
	Dirs   []*Dir                // parents before their children
	Groups map[fsys.Inode]*Group // inodes with two or more names in the tree
	HasBig bool                  // there is a big file
	Newest fsys.Time             // the latest change time of an entry
	Nested []string              // directories that are subvolumes
	sparse map[fsys.Inode]int64  // data bytes of big files with holes
}

// sortGroups sorts the names of each group. It drops groups with only one name inside the tree.
func (t *Tree) sortGroups() {
	for id, g := range t.Groups {
		if len(g.Names) == 1 {
			delete(t.Groups, id)
			continue
		}
		sort.Slice(g.Names, func(i, j int) bool { return g.Names[i].Path() < g.Names[j].Path() })
	}
}

// GroupOf returns nil for an entry with a single name in the tree.
func (t *Tree) GroupOf(e *Entry) *Group {
	if e.Sub != nil || e.Meta.Nlink == 1 {
		return nil
	}
	return t.Groups[e.Meta.Inode()]
}

// CountEntries returns the number of entries in the tree.
func (t *Tree) CountEntries() int64 {
	var n int64
	for _, d := range t.Dirs {
		n += int64(d.Count())
	}
	return n
}

// DataSize estimates how many bytes of a regular file are outside of holes. It is exact enough for big files only.
func (t *Tree) DataSize(e *Entry) int64 {
	if e.Meta.Size < BigFileMin {
		return e.Meta.Size
	}
	if data, known := t.sparse[e.Meta.Inode()]; known {
		return data
	}
	return e.Meta.Size
}

// orderDirs lists the directories so that parents come first.
func (t *Tree) orderDirs(top *Dir) {
	t.Dirs = append(t.Dirs, top)
	for i := 0; i < len(t.Dirs); i++ {
		for sub := range t.Dirs[i].Subs() {
			t.Dirs = append(t.Dirs, sub)
		}
	}
}

// EachChunk calls f for all entries, one chunk after the other, on several workers. At any time, only a few directories are unpacked.
func (t *Tree) EachChunk(ctx context.Context, workers int, f func(ctx context.Context, d *Dir, entries []Entry) error) error {
	return pool.Run(ctx, workers, func(p *pool.Pool) {
		for i := len(t.Dirs) - 1; i >= 0; i-- { // the pool takes the last first
			if d := t.Dirs[i]; !d.Excluded && len(d.Blocks) > 0 {
				p.Add(func(ctx context.Context) error { return workOnBlocks(ctx, p, d, 0, f) })
			}
		}
	})
}

// Finder finds names in a directory. It is fast if they come in their order.
type Finder struct {
	Dir     *Dir
	block   int
	entries []Entry // of this block; nil before the first search
	next    int     // the entry after the last result
}

// Find returns the entry of a name, or nil if the source has no such name. It is valid until the next search.
func (f *Finder) Find(name string) *Entry {
	if f.next < len(f.entries) && f.entries[f.next].Name == name {
		f.next++
		return &f.entries[f.next-1]
	}
	i := f.blockOf(name)
	if i < 0 {
		return nil
	}
	if f.entries == nil || i != f.block {
		f.block, f.entries = i, f.Dir.Blocks[i].Unpack(f.entries)
	}
	lo, hi := 0, len(f.entries)
	for lo < hi {
		if mid := (lo + hi) / 2; f.entries[mid].Name < name {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo < len(f.entries) && f.entries[lo].Name == name {
		f.next = lo + 1
		return &f.entries[lo]
	}
	return nil
}

// blockOf returns the block that may have the name, or -1.
func (f *Finder) blockOf(name string) int {
	blocks := f.Dir.Blocks
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

// Find returns the entry of a name, or nil if the source has no such name.
func (d *Dir) Find(name string) *Entry {
	f := Finder{Dir: d}
	return f.Find(name)
}

// A chunk is a range of the entries of a block for one worker, limited by bytes and, in a directory with one block, by the
// number of names. So several workers share a small directory on slow storage.
const (
	chunkBytes   = 8 << 20
	chunkEntries = 32
)

// ChunkLimit returns the number of names in a chunk.
func (d *Dir) ChunkLimit() int {
	if len(d.Blocks) == 1 {
		return chunkEntries
	}
	return BlockEntries
}

// EachChunk yields ranges that cover all entries of a block. Large files end up in separate chunks, so that they do not wait for
// each other.
func EachChunk(entries []Entry, limit int, yield func(lo, hi int)) {
	lo, bytes := 0, int64(0)
	for i := range entries {
		if entries[i].Meta.IsRegular() {
			bytes += entries[i].Meta.Size
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
func workOnBlocks(ctx context.Context, p *pool.Pool, d *Dir, i int, f func(ctx context.Context, d *Dir, entries []Entry) error) error {
	if i+1 < len(d.Blocks) {
		p.Add(func(ctx context.Context) error { return workOnBlocks(ctx, p, d, i+1, f) })
	}
	buf := EntryBuffers.Get()
	entries := d.Blocks[i].Unpack(buf[:])
	shared := false
	var err error
	EachChunk(entries, d.ChunkLimit(), func(lo, hi int) {
		if hi == len(entries) { // this worker takes the last chunk, which is usually the only one
			err = f(ctx, d, entries[lo:hi])
			return
		}
		shared = true
		p.Add(func(ctx context.Context) error { return f(ctx, d, entries[lo:hi]) })
	})
	if !shared {
		EntryBuffers.Put(buf)
	}
	return err
}
