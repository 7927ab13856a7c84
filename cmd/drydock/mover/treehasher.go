//go:build linux

package mover

import (
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"sync"

	"golang.org/x/sys/unix"
)

// treeHasher reads a scanned tree on one side or on both. It computes the content hash of each root directory and
// compares the sides.
type treeHasher struct {
	tree     *tree
	sides    []*root // the source, and optionally the target
	meter    *meter
	problems *problems
	content  [2]sum

	first       *copier                                  // of a first pass, which tolerates changes of the source, see confirm; or nil
	isOwnName   func(d *dir, name string) bool           // names in the target that belong to the mover; may be nil
	verified    func(e *entry, have meta) (known, bool)  // the result of an earlier pass; may be nil
	expected    func(src *meta) bool                     // whether verified will probably know a file; may be nil
	trusted     func(files, bytes int64)                 // called for files that were not read because of that
	misjudged   func(d *dir, e *entry, err error)        // called for each difference; e is nil for a directory; may be nil
	lacksFlags  func() uint32                            // inode flags that are not compared; nil compares none
	sourceKnown bool                                     // see copier.sourceIsSettled
	keeper      *keeper                                  // may be nil
	patched     func(e *entry, have *meta) *patchedUnits // a complete patch by units that left the target so; may be nil
	invalidate  func(dirfd int, e *entry)                // makes the next run copy a file of the target again
	effort      *effort                                  // may be nil
	limit       *Limiter                                 // may be nil
}

// node is a directory whose entries are being read.
type node struct {
	dir       *dir
	up        *node
	block     int // of this directory in up
	index     int // of this directory in that block
	snapshots [2]snapshot

	mu     sync.Mutex // guards the fields below
	blocks []nodeBlock
	next   int          // the first block that is not in the hashes
	hashes [2]hash.Hash // of the records of the blocks before next
}

// nodeBlock is a block of the directory. Blocks are read at the same time, and enter the hash in their order.
type nodeBlock struct {
	pending int      // unfinished pieces of work and subdirectories
	records [2][]sum // of its entries
	done    bool
}

// ifGone turns the error into a mismatch if a name is missing in the target or has another type there. That is not an
// I/O error.
func ifGone(s side, err error) error {
	if s == target && isAny(err, unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.ENXIO) {
		return fmt.Errorf("%w: %w", errMismatch, err)
	}
	return err
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// inSequence calls f for n sides, one after the other.
func inSequence(n int, f func(side int) error) error {
	for k := range n {
		if err := f(k); err != nil {
			return err
		}
	}
	return nil
}

// inParallel calls f for both sides at once. An error of the source takes precedence, because an error of the target may
// follow from it.
func inParallel(f func(side int) error) error {
	failed := make(chan error, 1)
	go func() { failed <- f(int(target)) }()
	err := f(int(source))
	if other := <-failed; err == nil {
		err = other
	}
	return err
}

// knownContents returns the contents of an entry that need not be read, or nil.
func (s *treeHasher) knownContents(d *dir, e *entry, g *group, both [2]snapshot) *sum {
	if s.verified == nil {
		return nil
	}
	k, ok := s.verified(e, both[target].meta)
	if !ok {
		return nil
	}
	s.meter.bytes.Add(both[target].data)
	bytes := int64(0) // hard links count once
	if g == nil || g.isLeader(d, e) {
		bytes = both[source].data
	}
	s.trusted(1, bytes)
	return &k.content
}

// judge passes a difference on.
func (s *treeHasher) judge(d *dir, e *entry, err error) {
	if err != nil && s.misjudged != nil {
		s.misjudged(d, e, err)
	}
}

// collectOf judges and collects an error of an entry, or of the directory itself if e is nil.
func (s *treeHasher) collectOf(d *dir, e *entry, err error) error {
	s.judge(d, e, err)
	if err != nil && isDifference(err) && s.mayLack(d, e) {
		return nil
	}
	return s.problems.collect(err)
}

// finishPiece ends one piece of work on a block. Complete blocks enter the hash of the directory in their order. After the
// last one, the directory's own record goes to its parent.
func (s *treeHasher) finishPiece(n *node, block int) {
	if n.finishPiece(block, len(s.sides)) {
		s.finishNode(n)
	}
}

// finishPiece returns whether all blocks are complete.
func (n *node) finishPiece(block, sides int) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	b := &n.blocks[block]
	if b.pending--; b.pending > 0 {
		return false
	}
	b.done = true
	for ; n.next < len(n.blocks) && n.blocks[n.next].done; n.next++ {
		for side := range sides {
			for i := range n.blocks[n.next].records[side] {
				n.hashes[side].Write(n.blocks[n.next].records[side][i][:])
			}
		}
		n.blocks[n.next].records = [2][]sum{}
	}
	return n.next == len(n.blocks)
}

func (s *treeHasher) finishNode(n *node) {
	for side := range s.sides {
		n.snapshots[side].content = sum(n.hashes[side].Sum(nil))
		if n.up == nil {
			s.content[side] = n.snapshots[side].content
		} else {
			n.up.blocks[n.block].records[side][n.index] = n.snapshots[side].record(n.dir.self.name)
		}
	}
	if n.up != nil {
		s.finishPiece(n.up, n.block)
	}
}

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
