//go:build linux

package mover

import (
	"context"
	"crypto/sha256"
	"time"
)

func (s *treeHasher) run(ctx context.Context, workers int) error {
	return runPool(ctx, workers, func(p *pool) { p.add(s.visit(p, &node{dir: s.tree.top})) })
}

// visit reads a directory. If it has many entries, other workers read some of them.
func (s *treeHasher) visit(p *pool, n *node) task {
	return func(ctx context.Context) error {
		n.pending.Store(1)
		defer s.finishPiece(n)
		fds, err := s.open(n.dir)
		defer closeAll(fds)
		if err == nil {
			err = s.readDir(n, fds)
		}
		if err != nil {
			return s.problems.collect(err)
		}
		for i := range n.dir.entries {
			if sub := n.dir.entries[i].sub; sub != nil {
				n.pending.Add(1)
				p.add(s.visit(p, &node{dir: sub, up: n, index: i}))
			}
		}
		return s.readEntries(ctx, p, n, fds)
	}
}

func (s *treeHasher) readEntries(ctx context.Context, p *pool, n *node, fds []int) error {
	var err error
	eachChunk(n.dir.entries, func(lo, hi int) {
		if hi == len(n.dir.entries) { // this worker reads the last chunk, which is usually the only one
			err = s.readChunk(ctx, n, fds, lo, hi)
			return
		}
		n.pending.Add(1)
		p.add(func(ctx context.Context) error {
			defer s.finishPiece(n)
			fds, err := s.open(n.dir)
			defer closeAll(fds)
			if err != nil {
				return s.problems.collect(err)
			}
			return s.readChunk(ctx, n, fds, lo, hi)
		})
	})
	return err
}

// finishPiece ends one piece of work on a directory. After the last piece all records are there, and the directory's own
// record goes to its parent.
func (s *treeHasher) finishPiece(n *node) {
	for ; n != nil && n.pending.Add(-1) == 0; n = n.up {
		for side := range s.sides {
			h := sha256.New()
			for _, r := range n.records[side] {
				h.Write(r[:])
			}
			n.snapshots[side].content = sum(h.Sum(nil))
			if n.up == nil {
				s.content[side] = n.snapshots[side].content
			} else if records := n.up.records[side]; records != nil {
				records[n.index] = n.snapshots[side].record(n.dir.self.name)
			}
		}
		n.records = [2][]sum{}
	}
}

// open opens a directory on all sides.
func (s *treeHasher) open(d *dir) ([]int, error) {
	fds := make([]int, 0, len(s.sides))
	for _, r := range s.sides {
		fd, err := r.open(d)
		if err != nil {
			return fds, &fault{r.side, "opening the directory", d.path(), ifGone(r.side, err)}
		}
		fds = append(fds, fd)
	}
	return fds, nil
}

// readDir reads a directory's own attributes and finds names in the target that the source does not have.
func (s *treeHasher) readDir(n *node, fds []int) error {
	d := n.dir
	for side, fd := range fds {
		n.records[side] = make([]sum, len(d.entries))
		var err error
		if n.snapshots[side], err = s.readDirAttributes(s.sides[side].side, fd, d); err != nil {
			return err
		}
	}
	if len(fds) < 2 {
		return nil
	}
	if d.parent != nil {
		if err := s.problems.collect(differenceError(d.path(), &n.snapshots[source], &n.snapshots[target], nil)); err != nil {
			return err
		}
	}
	names, err := readdir(fds[target])
	if err != nil {
		return &fault{target, "reading the directory", d.path(), err}
	}
	for _, name := range names {
		if d.find(name.name) != nil || s.isOwnName != nil && s.isOwnName(d, name.name) {
			continue
		}
		if d.isLostFound(name.name) {
			if state, err := lostFoundIn(fds[target]); err == nil && state != lostFoundOrdinary {
				continue
			}
		}
		err := s.problems.collect(&fault{target, "comparing", d.join(name.name), mismatch("the source has no such entry")})
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *treeHasher) readDirAttributes(side side, fd int, d *dir) (snapshot, error) {
	st, err := fstat(fd)
	if err != nil {
		return snapshot{}, &fault{side, "looking at", d.path(), err}
	}
	l := snapshot{meta: metaOf(&st)}
	if side == source && l.meta != d.self.meta {
		return l, &fault{side, "looking at", d.path(), errChanged}
	}
	if l.attrs, err = opened(fd).xattrs(nil); err != nil {
		return l, &fault{side, "reading extended attributes of", d.path(), err}
	}
	return l, nil
}

func (s *treeHasher) readChunk(ctx context.Context, n *node, fds []int, lo, hi int) error {
	for i := lo; i < hi; i++ {
		e := &n.dir.entries[i]
		if e.sub != nil {
			continue
		}
		if err := s.problems.collect(s.readEntry(ctx, n, fds, i)); err != nil {
			return err
		}
		s.meter.files.Add(1)
	}
	return nil
}

func (s *treeHasher) readEntry(ctx context.Context, n *node, fds []int, i int) error {
	e := &n.dir.entries[i]
	both, err := s.readSides(ctx, n.dir, e, fds)
	if err != nil {
		return err
	}
	for k := range fds {
		n.records[k][i] = both[k].record(e.name)
	}
	if len(fds) < 2 {
		return nil
	}
	if both[source].content != both[target].content {
		invalidate(fds[target], e)
	}
	return differenceError(n.dir.join(e.name), &both[source], &both[target], s.tree.groupOf(n.dir, e))
}

// readSides reads an entry on all sides.
func (s *treeHasher) readSides(ctx context.Context, d *dir, e *entry, fds []int) (both [2]snapshot, err error) {
	g := s.tree.groupOf(d, e)
	at := func(k int) entryReader { return entryReader{s, s.sides[k].side, d, e, g} }
	for k, fd := range fds {
		if both[k], err = at(k).stat(fd); err != nil {
			return both, err
		}
	}
	known := s.knownContents(d, e, g, both)
	rest := func(k int) (err error) { both[k], err = at(k).readDetails(ctx, fds[k], both[k], known); return err }
	if known != nil || !e.meta.isRegular() {
		err = inSequence(len(fds), rest)
		return both, err
	}
	if s.effort != nil {
		began := time.Now()
		defer func() { s.effort.contents(e.meta.size, both[source].data, began) }()
	}
	if len(fds) < 2 || e.meta.size < bigFileMin || s.limit != nil {
		err = inSequence(len(fds), rest)
		return both, err
	}
	err = inParallel(rest)
	return both, err
}
