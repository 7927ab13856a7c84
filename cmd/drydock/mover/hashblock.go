//go:build linux

package mover

import (
	"context"
	"crypto/sha256"
)

// readBlock reads a block of a directory. Before that, it adds tasks for the blocks after it, and for the subdirectories in
// the block.
func (s *treeHasher) readBlock(ctx context.Context, p *pool, n *node, i int, fds []int) error {
	if i+1 < len(n.blocks) {
		p.add(s.blockTask(p, n, i+1))
	}
	buf := entryBuffers.Get()
	entries := n.dir.blocks[i].unpack(buf[:])
	b := &n.blocks[i]
	for side := range s.sides {
		b.records[side] = make([]sum, len(entries))
	}
	var later [][2]int // other workers read these pieces
	own := [2]int{}
	eachChunk(entries, n.dir.chunkLimit(), func(lo, hi int) {
		if own[1] > own[0] {
			later = append(later, own)
		}
		own = [2]int{lo, hi}
	})
	b.pending = 1 + len(later) + len(n.dir.blocks[i].subs)
	for _, piece := range later {
		p.add(func(ctx context.Context) error {
			return s.withDir(n.dir, func(fds []int) error { return s.readChunk(ctx, n, i, fds, entries, piece) })
		})
	}
	for k := range entries {
		if sub := entries[k].sub; sub != nil {
			p.add(s.visit(p, &node{dir: sub, up: n, block: i, index: k}))
		}
	}
	err := s.readChunk(ctx, n, i, fds, entries, own)
	if len(later) == 0 {
		entryBuffers.Put(buf)
	}
	return err
}

func (s *treeHasher) blockTask(p *pool, n *node, i int) task {
	return func(ctx context.Context) error {
		return s.withDir(n.dir, func(fds []int) error { return s.readBlock(ctx, p, n, i, fds) })
	}
}

// withDir opens a directory on all sides for f.
func (s *treeHasher) withDir(d *dir, f func(fds []int) error) error {
	fds, err := s.open(d)
	defer closeAll(fds)
	if err != nil {
		return s.collectOf(d, nil, err)
	}
	return f(fds)
}

func (s *treeHasher) run(ctx context.Context, workers int) error {
	return runPool(ctx, workers, func(p *pool) { p.add(s.visit(p, &node{dir: s.tree.top})) })
}

// visit reads a directory. If it has several blocks, other workers read them while this one compares the names.
func (s *treeHasher) visit(p *pool, n *node) task {
	return func(ctx context.Context) error {
		if n.dir.excluded {
			s.finishNode(n)
			return nil
		}
		fds, err := s.open(n.dir)
		defer closeAll(fds)
		if err != nil {
			return s.collectOf(n.dir, nil, err)
		}
		if err := s.collectOf(n.dir, nil, s.readDir(n, fds)); err != nil {
			return err
		}
		n.blocks = make([]nodeBlock, len(n.dir.blocks))
		for side := range s.sides {
			n.hashes[side] = sha256.New()
		}
		switch len(n.blocks) {
		case 0:
			s.finishNode(n)
		case 1:
			err = s.readBlock(ctx, p, n, 0, fds)
		default:
			p.add(s.blockTask(p, n, 0))
		}
		if err != nil {
			return err
		}
		return s.collectOf(n.dir, nil, s.compareNames(n.dir, fds))
	}
}
