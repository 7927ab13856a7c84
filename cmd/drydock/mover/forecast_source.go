//go:build linux

package mover

import (
	"fmt"
	"hash/fnv"
)

// firstPassState is the knowledge of a completed first pass about the source.
type firstPassState struct {
	saved   *record               // nil if nothing was recorded
	kept    map[inode]*keptHashes // of the target, by the source's inode
	bound   unixTime
	places  map[inode]uint64 // place of each directory, see placeOf
	entries int64
}

// lastRecord returns the record of the last first pass, or nil.
func (k *firstPassState) lastRecord() *record {
	if k == nil {
		return nil
	}
	return k.saved
}

// keptHashes returns the kept hashes, or nil.
func (k *firstPassState) keptHashes() map[inode]*keptHashes {
	if k == nil {
		return nil
	}
	return k.kept
}

// isRecorded reports whether a file of the source is recorded and has not changed since.
func (k *firstPassState) isRecorded(m *meta) bool {
	return m.ctime().before(k.bound) && k.saved.search(m.ino, 0) >= 0
}

// remaining sums up the files of a tree that a final pass would have to read.
func (k *firstPassState) remaining(t *tree) Work {
	var w Work
	k.eachRemaining(t, func(_ *dir, e *entry, isMoved bool) {
		w.add(e.meta.size, t.dataSize(e))
		if kept := k.kept[e.meta.inode()]; e.meta.size >= bigFileMin && !isMoved && kept != nil && kept.suffices(e.meta.size) {
			w.Kept += t.dataSize(e)
		}
	})
	w.Deletions = max(0, k.entries-t.countEntries())
	return w
}

// eachRemaining calls f for the files that a final pass would have to read, once for all names of a file. Moving a
// directory leaves no trace in the files below it, but the target does not have them in the new place.
func (k *firstPassState) eachRemaining(t *tree, f func(d *dir, e *entry, isMoved bool)) {
	moved := map[*dir]bool{}
	for _, d := range t.dirs { // parents come first
		isMoved := moved[d.parent] || k.places[d.self.meta.inode()] != placeOf(d)
		if isMoved {
			moved[d] = true
		}
		for e := range d.all() {
			if g := t.groupOf(e); e.meta.isRegular() && (g == nil || g.isLeader(d, e)) && (isMoved || !k.isRecorded(&e.meta)) {
				f(d, e, isMoved)
			}
		}
	}
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

func (c *copier) newFirstPassState() *firstPassState {
	k := &firstPassState{
		saved: c.saved, bound: c.trust.bound,
		places: make(map[inode]uint64, len(c.tree.dirs)), entries: c.tree.countEntries(),
	}
	for _, d := range c.tree.dirs {
		k.places[d.self.meta.inode()] = placeOf(d)
	}
	return k
}
