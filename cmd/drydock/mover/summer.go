//go:build linux

package mover

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// summer reads a scanned tree, on one side or on both, computes the content of the root directory on each, and compares.
type summer struct {
	tree     *tree
	sides    []*root // the source, and the target if there is one
	meter    *meter
	problems *problems
	content  [2]sum

	keeps  func(d *dir, name string) bool                      // names in the target that are the mover's own; may be nil
	unread func(d *dir, e *entry, have *meta) (c sum, ok bool) // contents that are known, by the target's inode; may be nil
	saved  func(g *group, e *entry, bytes int64)               // is told what was not read for that
	effort *effort                                             // may be nil
	limit  *Limiter                                            // may be nil
}

// node is a directory whose entries are being read.
type node struct {
	dir     *dir
	up      *node
	index   int // in up
	waits   atomic.Int32
	looks   [2]looks
	records [2][]sum // of its entries
}

func (s *summer) run(ctx context.Context, workers int) error {
	return runPool(ctx, workers, func(p *pool) { p.add(s.visit(p, &node{dir: s.tree.top})) })
}

// visit reads a directory, and its entries unless they are many: then other workers help.
func (s *summer) visit(p *pool, n *node) task {
	return func(ctx context.Context) error {
		n.waits.Store(1)
		defer s.leave(n)
		fds, err := s.open(n.dir)
		defer closeAll(fds)
		if err == nil {
			err = s.readDir(n, fds)
		}
		if err != nil {
			return s.problems.tolerate(err)
		}
		for i := range n.dir.entries {
			if sub := n.dir.entries[i].sub; sub != nil {
				n.waits.Add(1)
				p.add(s.visit(p, &node{dir: sub, up: n, index: i}))
			}
		}
		return s.readEntries(ctx, p, n, fds)
	}
}

func (s *summer) readEntries(ctx context.Context, p *pool, n *node, fds []int) error {
	var err error
	eachChunk(n.dir.entries, func(lo, hi int) {
		if hi == len(n.dir.entries) { // the last one, mostly the only one, is ours
			err = s.readChunk(ctx, n, fds, lo, hi)
			return
		}
		n.waits.Add(1)
		p.add(func(ctx context.Context) error {
			defer s.leave(n)
			fds, err := s.open(n.dir)
			defer closeAll(fds)
			if err != nil {
				return s.problems.tolerate(err)
			}
			return s.readChunk(ctx, n, fds, lo, hi)
		})
	})
	return err
}

// leave ends one piece of work on a directory. The last one has all records and hands the directory's own to its parent.
func (s *summer) leave(n *node) {
	for ; n != nil && n.waits.Add(-1) == 0; n = n.up {
		for side := range s.sides {
			h := sha256.New()
			for _, r := range n.records[side] {
				h.Write(r[:])
			}
			n.looks[side].content = sum(h.Sum(nil))
			if n.up == nil {
				s.content[side] = n.looks[side].content
			} else if records := n.up.records[side]; records != nil {
				records[n.index] = n.looks[side].record(n.dir.self.name)
			}
		}
		n.records = [2][]sum{}
	}
}

// open opens a directory on all sides.
func (s *summer) open(d *dir) ([]int, error) {
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

// ifGone makes it a mismatch, not an I/O error, when a name is missing in the target or is of another type.
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

// readDir looks at a directory itself and, in the target, for names that the source does not have.
func (s *summer) readDir(n *node, fds []int) error {
	d := n.dir
	for side, fd := range fds {
		n.records[side] = make([]sum, len(d.entries))
		var err error
		if n.looks[side], err = s.lookAtDir(s.sides[side].side, fd, d); err != nil {
			return err
		}
	}
	if len(fds) < 2 {
		return nil
	}
	if d.parent != nil {
		if err := s.problems.tolerate(differ(d.path(), &n.looks[source], &n.looks[target], nil)); err != nil {
			return err
		}
	}
	names, err := readdir(fds[target])
	if err != nil {
		return &fault{target, "reading the directory", d.path(), err}
	}
	for _, name := range names {
		if d.find(name.name) != nil || s.keeps != nil && s.keeps(d, name.name) {
			continue
		}
		if d.isLostFound(name.name) {
			if state, err := lostFoundIn(fds[target]); err == nil && state != lostFoundOrdinary {
				continue
			}
		}
		err := s.problems.tolerate(&fault{target, "comparing", d.join(name.name), mismatch("the source has no such entry")})
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *summer) lookAtDir(side side, fd int, d *dir) (looks, error) {
	st, err := fstat(fd)
	if err != nil {
		return looks{}, &fault{side, "looking at", d.path(), err}
	}
	l := looks{meta: metaOf(&st)}
	if side == source && l.meta != d.self.meta {
		return l, &fault{side, "looking at", d.path(), errChanged}
	}
	if l.attrs, err = opened(fd).xattrs(nil); err != nil {
		return l, &fault{side, "reading extended attributes of", d.path(), err}
	}
	return l, nil
}

func (s *summer) readChunk(ctx context.Context, n *node, fds []int, lo, hi int) error {
	for i := lo; i < hi; i++ {
		e := &n.dir.entries[i]
		if e.sub != nil {
			continue
		}
		if err := s.problems.tolerate(s.readEntry(ctx, n, fds, i)); err != nil {
			return err
		}
		s.meter.files.Add(1)
	}
	return nil
}

func (s *summer) readEntry(ctx context.Context, n *node, fds []int, i int) error {
	e := &n.dir.entries[i]
	both, err := s.look(ctx, n.dir, e, fds)
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
	return differ(n.dir.join(e.name), &both[source], &both[target], s.tree.groupOf(n.dir, e))
}

// look reads an entry on all sides.
func (s *summer) look(ctx context.Context, d *dir, e *entry, fds []int) (both [2]looks, err error) {
	g := s.tree.groupOf(d, e)
	at := func(k int) reader { return reader{s, s.sides[k].side, d, e, g} }
	for k, fd := range fds {
		if both[k], err = at(k).stat(fd); err != nil {
			return both, err
		}
	}
	known := s.known(d, e, g, both)
	rest := func(k int) (err error) { both[k], err = at(k).rest(ctx, fds[k], both[k], known); return err }
	if known != nil || !e.meta.isRegular() {
		err = inTurn(len(fds), rest)
		return both, err
	}
	if s.effort != nil {
		began := time.Now()
		defer func() { s.effort.contents(e.meta.size, both[source].data, began) }()
	}
	if len(fds) < 2 || e.meta.size < patchLeast || s.limit != nil {
		err = inTurn(len(fds), rest)
		return both, err
	}
	err = atOnce(rest)
	return both, err
}

// inTurn calls f for n sides, one after the other.
func inTurn(n int, f func(side int) error) error {
	for k := range n {
		if err := f(k); err != nil {
			return err
		}
	}
	return nil
}

// atOnce calls f for both sides. An error of the source comes first: what is wrong with the target may follow from it.
func atOnce(f func(side int) error) error {
	failed := make(chan error, 1)
	go func() { failed <- f(int(target)) }()
	err := f(int(source))
	if other := <-failed; err == nil {
		err = other
	}
	return err
}

// known returns the contents of an entry if they need not be read.
func (s *summer) known(d *dir, e *entry, g *group, both [2]looks) *sum {
	if s.unread == nil {
		return nil
	}
	content, ok := s.unread(d, e, &both[target].meta)
	if !ok {
		return nil
	}
	s.meter.bytes.Add(both[target].data)
	s.saved(g, e, both[source].data)
	return &content
}
