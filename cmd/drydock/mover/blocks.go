//go:build linux

package mover

import "iter"

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

// finder finds names in a directory. It is fast if they come in their order.
type finder struct {
	dir     *dir
	block   int
	entries []entry // of this block; nil before the first search
}

// find returns the entry of a name, or nil if the source has no such name. It is valid until the next search.
func (f *finder) find(name string) *entry {
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
