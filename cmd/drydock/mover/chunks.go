//go:build linux

package mover

import "context"

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

// eachBlock calls f for all entries of the blocks that are not skipped, one chunk after the other, on the workers of the copy. At any time,
// only a few directories are unpacked.
func (c *copier) eachBlock(ctx context.Context, skip func(d *dir, b *block) bool,
	f func(ctx context.Context, d *dir, entries []entry) error,
) error {
	return runPool(ctx, c.workers, func(p *pool) {
		for i := len(c.tree.dirs) - 1; i >= 0; i-- { // the pool takes the last first
			if d := c.tree.dirs[i]; !d.excluded && len(d.blocks) > 0 {
				p.add(func(ctx context.Context) error { return workOnBlocks(ctx, p, d, 0, skip, f) })
			}
		}
	})
}

// workOnBlocks works on a block of a directory. Before that, it adds a task for the blocks after it.
func workOnBlocks(ctx context.Context, p *pool, d *dir, i int, skip func(d *dir, b *block) bool,
	f func(ctx context.Context, d *dir, entries []entry) error,
) error {
	for ; i < len(d.blocks) && skip(d, &d.blocks[i]); i++ {
	}
	if i == len(d.blocks) {
		return nil
	}
	if i+1 < len(d.blocks) {
		p.add(func(ctx context.Context) error { return workOnBlocks(ctx, p, d, i+1, skip, f) })
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

var entryBuffers bufferPool[[blockEntries]entry]

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
