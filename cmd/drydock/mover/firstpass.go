//go:build linux

package mover

import (
	"fmt"
	"hash/fnv"
	"sort"
)

// firstPassState is the knowledge of a completed first pass about the source.
type firstPassState struct {
	record  *record // nil if nothing was recorded
	bound   unixTime
	places  map[inode]uint64 // place of each directory, see placeOf
	entries int64
}

func (c *copier) newFirstPassState() *firstPassState {
	k := &firstPassState{
		record: c.twoPass.current, bound: c.twoPass.bound,
		places: make(map[inode]uint64, len(c.tree.dirs)), entries: c.tree.countEntries(),
	}
	for _, d := range c.tree.dirs {
		k.places[d.self.meta.inode()] = placeOf(d)
	}
	return k
}

// placeOf returns a hash of a directory's name and its parent directory.
func placeOf(d *dir) uint64 {
	h := fnv.New64a()
	if d.parent != nil {
		up := d.parent.self.meta.inode()
		_, _ = fmt.Fprintf(h, "%d %d %s", up.dev, up.ino, d.self.name)
	}
	return h.Sum64()
}

// isRecorded reports whether a file of the source is recorded and has not changed since.
func (k *firstPassState) isRecorded(m *meta) bool {
	if k.record == nil || !m.ctime().before(k.bound) {
		return false
	}
	r := k.record
	i := sort.Search(len(r.entries), func(i int) bool { return r.entries[i].ino >= m.ino })
	return i < len(r.entries) && r.entries[i].ino == m.ino
}

// remaining sums up the files of a tree that a final pass would have to read.
func (k *firstPassState) remaining(t *tree) Work {
	var w Work
	k.eachRemaining(t, func(_ *dir, e *entry) { w.add(e.meta.size, t.dataSize(e)) })
	w.Deletions = max(0, k.entries-t.countEntries())
	return w
}

// eachRemaining calls f for the files that a final pass would have to read, once for all names of a file. Moving a
// directory leaves no trace in the files below it, but the target does not have them in the new place.
func (k *firstPassState) eachRemaining(t *tree, f func(*dir, *entry)) {
	moved := map[*dir]bool{}
	for _, d := range t.dirs { // parents come first
		isMoved := moved[d.parent] || k.places[d.self.meta.inode()] != placeOf(d)
		if isMoved {
			moved[d] = true
		}
		for i := range d.entries {
			e := &d.entries[i]
			if g := t.groupOf(d, e); e.meta.isRegular() && (g == nil || g.isLeader(e)) && (isMoved || !k.isRecorded(&e.meta)) {
				f(d, e)
			}
		}
	}
}
