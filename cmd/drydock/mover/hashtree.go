//go:build linux

package mover

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

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

// readDir reads a directory's own attributes.
func (s *treeHasher) readDir(n *node, fds []int) error {
	d := n.dir
	for side, fd := range fds {
		var err error
		if n.snapshots[side], err = s.readDirAttributes(s.sides[side].side, fd, d); err != nil {
			return err
		}
	}
	if len(fds) < 2 || d.parent == nil {
		return nil
	}
	found := differences(&n.snapshots[source], &n.snapshots[target], nil, false)
	if len(found) > 0 && s.first != nil {
		return alteredError(d.path(), found)
	}
	return differenceError(d.path(), found)
}

// compareNames finds names in the target that the source does not have, and the lack of names that it has. All names of the
// source are looked up in the target anyway, so equal numbers prove equal names. Lookups alone do not: in a directory that
// ignores case, two names of the source find one entry. The root may have names of the mover and of the file system besides,
// so its number proves nothing.
func (s *treeHasher) compareNames(d *dir, fds []int) error {
	if len(fds) < 2 {
		return nil
	}
	fd := fds[target]
	n, err := countNames(fd)
	if err == nil && n == d.count() && d.parent != nil {
		return nil
	}
	names := nameList{}
	if err == nil {
		names, err = readdir(fd)
	}
	if err != nil {
		return &fault{target, "reading the directory", d.path(), err}
	}
	known, found := finder{dir: d}, 0
	for name := range names.all() {
		if known.find(name.name) != nil {
			found++
			continue
		}
		if s.isOwnName != nil && s.isOwnName(d, name.name) {
			continue
		}
		if s.first != nil && d.parent == nil && strings.HasPrefix(name.name, tempPrefix) {
			continue // the record writer creates it, and deletes it at once
		}
		if d.isLostFound(name.name) {
			if state, err := lostFoundIn(fd); err == nil && state != lostFoundOrdinary {
				continue
			}
		}
		if err := s.collectOf(d, nil, &fault{target, "comparing", d.join(name.name), mismatch("the source has no such entry")}); err != nil {
			return err
		}
	}
	if found == d.count() || s.first != nil && !findsOtherNames(d, fd, names) {
		return nil
	}
	return s.collectOf(d, nil, &fault{target, "comparing", d.path(), mismatch(fmt.Sprintf(
		"it has only %d of the %d names of the source; it may ignore the case of names", found, d.count()))})
}

// findsOtherNames reports whether a lookup in a directory of the target finds a name of the source that the directory does not list.
func findsOtherNames(d *dir, fd int, names nameList) bool {
	listed := map[string]bool{}
	for name := range names.all() {
		listed[name.name] = true
	}
	for e := range d.all() {
		if listed[e.name] {
			continue
		}
		if _, err := lstatat(fd, e.name); err == nil {
			return true
		}
	}
	return false
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
	l.flags = s.comparedFlags(side, fd)
	if l.attrs, err = opened(fd).xattrs(nil); err != nil {
		return l, &fault{side, "reading extended attributes of", d.path(), err}
	}
	return l, nil
}

// readChunk reads a piece of a block.
func (s *treeHasher) readChunk(ctx context.Context, n *node, block int, fds []int, entries []entry, piece [2]int) error {
	defer s.finishPiece(n, block)
	if s.effort != nil {
		defer s.effort.task(time.Now())
	}
	var seen trustedFiles
	defer func() { seen.addTo(s) }()
	var ahead prefetcher
	for i := piece[0]; i < piece[1]; i++ {
		e := &entries[i]
		if e.sub != nil {
			continue
		}
		if i%16 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if s.first != nil && s.first.confirmKnown(n.dir, e, fds, &seen) {
			s.meter.files.Add(1)
			continue
		}
		if record, ok := s.readTrusted(fds, e, &seen); ok {
			for k := range fds {
				n.blocks[block].records[k][i] = record
			}
			s.meter.files.Add(1)
			continue
		}
		ahead.advance(s, fds, entries[:piece[1]], i,
			func(e *entry) bool { return s.comparesContents(n.dir, e) && s.mustRead(e) })
		err := s.readEntry(ctx, n, block, fds, i, e, &ahead)
		if err := s.collectOf(n.dir, e, err); err != nil {
			return err
		}
		s.meter.files.Add(1)
	}
	return nil
}

func (s *treeHasher) readEntry(ctx context.Context, n *node, block int, fds []int, i int, e *entry, ahead *prefetcher) error {
	both, err := s.readSides(ctx, n.dir, e, fds, ahead.isFresh(e))
	if err != nil {
		return err
	}
	if s.first == nil {
		for k := range fds {
			n.blocks[block].records[k][i] = both[k].record(e.name)
		}
	}
	if len(fds) < 2 {
		return nil
	}
	same := both[source].content == both[target].content
	if !same {
		s.invalidate(fds[target], e)
	}
	found := differences(&both[source], &both[target], s.tree.groupOf(e), s.first != nil)
	switch {
	case len(found) > 0 && same && s.first != nil:
		return alteredError(n.dir.join(e.name), found)
	case len(found) > 0:
		return differenceError(n.dir.join(e.name), found)
	case s.first != nil:
		s.first.confirmEqual(n.dir, e, &both)
	}
	return nil
}

// readSides reads an entry on all sides. fresh says that the target's contents in memory were just read from the device.
func (s *treeHasher) readSides(ctx context.Context, d *dir, e *entry, fds []int, fresh bool) (both [2]snapshot, err error) {
	g := s.tree.groupOf(e)
	at := func(k int) entryReader { return entryReader{s, s.sides[k].side, d, e, g, fresh} }
	for k, fd := range fds {
		if both[k], err = at(k).stat(fd); err != nil {
			return both, err
		}
	}
	if s.patched != nil {
		if p := s.patched(e, &both[target].meta); p != nil {
			return s.readPatched(ctx, d, e, fds, both, p)
		}
	}
	known := &sum{}
	if !e.meta.isRegular() || s.comparesContents(d, e) {
		known = s.knownContents(d, e, g, both)
	}
	rest := func(k int) (err error) {
		if copied, ok := e.copiedSum(); ok && known == nil && k == int(source) {
			both[k].content = copied
			return nil
		}
		both[k], err = at(k).readDetails(ctx, fds[k], both[k], known)
		return err
	}
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

// readPatched reads a file that this pass has compared by units. The source was read then, and has not changed since.
func (s *treeHasher) readPatched(ctx context.Context, d *dir, e *entry, fds []int, both [2]snapshot, p *patchedUnits) ([2]snapshot, error) {
	at := func(k int) entryReader { return entryReader{s, s.sides[k].side, d, e, s.tree.groupOf(e), false} }
	if err := at(int(target)).verifyUnits(ctx, fds[target], &both[target].meta, p); err != nil {
		return both, err
	}
	s.meter.bytes.Add(both[target].data)
	err := inSequence(len(fds), func(k int) (err error) {
		both[k], err = at(k).readDetails(ctx, fds[k], both[k], &p.content)
		return err
	})
	return both, err
}

// Limits of the files that are read ahead.
const (
	prefetchFiles = 32
	prefetchBytes = 4 << 20
)

// prefetcher reads small files of the target ahead of a worker. Verification reads each file from the device. One after the
// other, each would cost a wait for the device.
//
// It drops the contents from memory and asks the kernel to read them again. So they come from the device, as without it.
type prefetcher struct {
	next  int             // the first entry that was not considered
	fresh map[string]bool // the names that were read ahead
}

// advance reads ahead if the worker is at entry i and has caught up. It skips entries that wanted refuses. A failure does not
// matter: such a file is read later.
func (p *prefetcher) advance(s *treeHasher, fds []int, entries []entry, i int, wanted func(*entry) bool) {
	if i < p.next || len(fds) < 2 || s.limit != nil {
		return
	}
	p.next = i
	clear(p.fresh)
	bytes := int64(0)
	for files := 0; p.next < len(entries) && files < prefetchFiles && bytes < prefetchBytes; p.next++ {
		e := &entries[p.next]
		if !e.meta.isRegular() || e.meta.size == 0 || e.meta.size >= bigFileMin || e.meta.nlink != 1 || !wanted(e) {
			continue
		}
		if prefetch(fds[target], e.name) == nil {
			if p.fresh == nil {
				p.fresh = map[string]bool{}
			}
			p.fresh[e.name] = true
		}
		files++
		bytes += e.meta.size
	}
}

// mustRead reports whether the contents of a file are probably not known from an earlier pass.
func (s *treeHasher) mustRead(e *entry) bool { return s.expected == nil || !s.expected(&e.meta) }

func (p *prefetcher) isFresh(e *entry) bool { return p.fresh[e.name] }

func prefetch(dirfd int, name string) error {
	fd, err := openat(dirfd, name, unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := ignoringEINTR(func() error { return unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED) }); err != nil {
		return err
	}
	return ignoringEINTR(func() error { return unix.Fadvise(fd, 0, 0, unix.FADV_WILLNEED) })
}
