//go:build linux

package mover

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"sort"
)

// known is the knowledge of a warm pass that has ended.
type known struct {
	record  *record // nil: nothing was recorded
	bound   unixTime
	places  map[inode]uint64 // of the directories, see placeOf
	entries int64
}

func (c *copier) knowledge() *known {
	k := &known{record: c.warm.fresh, bound: c.warm.bound, places: make(map[inode]uint64, len(c.tree.dirs)), entries: c.tree.size()}
	for _, d := range c.tree.dirs {
		k.places[d.self.meta.inode()] = placeOf(d)
	}
	return k
}

// placeOf is a hash of a directory's name and of the directory that it is in.
func placeOf(d *dir) uint64 {
	h := fnv.New64a()
	if d.parent != nil {
		up := d.parent.self.meta.inode()
		_, _ = fmt.Fprintf(h, "%d %d %s", up.dev, up.ino, d.self.name)
	}
	return h.Sum64()
}

// size counts the entries of a tree.
func (t *tree) size() int64 {
	var n int64
	for _, d := range t.dirs {
		n += int64(len(d.entries))
	}
	return n
}

// has reports whether a file of the source is recorded and has not changed since.
func (k *known) has(m *meta) bool {
	if k.record == nil || !m.ctime().before(k.bound) {
		return false
	}
	r := k.record
	i := sort.Search(len(r.entries), func(i int) bool { return r.entries[i].ino >= m.ino })
	return i < len(r.entries) && r.entries[i].ino == m.ino
}

// left sums up the files of a tree that a final pass would have to read.
func (k *known) left(t *tree) Work {
	var w Work
	k.eachLeft(t, func(_ *dir, e *entry) { w.add(e.meta.size, t.data(e)) })
	w.Gone = max(0, k.entries-t.size())
	return w
}

// eachLeft calls f for the files that a final pass would have to read, once for all names of a file. A directory that was moved leaves
// no trace in the files below it, but the target does not have them at the new place.
func (k *known) eachLeft(t *tree, f func(*dir, *entry)) {
	moved := map[*dir]bool{}
	for _, d := range t.dirs { // parents come first
		isMoved := moved[d.parent] || k.places[d.self.meta.inode()] != placeOf(d)
		if isMoved {
			moved[d] = true
		}
		for i := range d.entries {
			e := &d.entries[i]
			if g := t.groupOf(d, e); e.meta.isRegular() && (g == nil || g.leads(e)) && (isMoved || !k.has(&e.meta)) {
				f(d, e)
			}
		}
	}
}

var errNoKnowledge = errors.New("the last pass over these trees did not succeed")

// Survey scans the source and returns the figures of its last warm pass, with Left as it is now. It reads no
// contents and leaves the target alone. Of the options Source, Workers and Progress count. The error, if any, is an *Error.
func Survey(ctx context.Context, o Options, last Result) (Figures, error) {
	if last.known == nil {
		return Figures{}, usageError(errNoKnowledge)
	}
	src, err := openRoot(o.Source, source)
	if err != nil {
		return Figures{}, toError(rootError(err), nil)
	}
	defer src.close()
	m := newMeter(o.Progress, o.ProgressInterval)
	defer m.close()
	p := problems{live: true}
	t, err := scan(ctx, src, workersOr(o.Workers), m, &p)
	if err == nil {
		err = p.err()
	}
	if err != nil {
		return Figures{}, toError(err, nil)
	}
	f := last.Figures
	f.Left = last.known.left(t)
	return f, nil
}
