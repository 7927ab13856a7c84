//go:build linux

package forecast

import (
	"fmt"
	"hash/fnv"

	"drydock.dev/cmd/drydock/mover/fsys"
	"drydock.dev/cmd/drydock/mover/record"
	"drydock.dev/cmd/drydock/mover/tree"
	"drydock.dev/cmd/drydock/mover/units"
)

// FirstPass is the knowledge of a completed first pass about the source.
type FirstPass struct {
	saved   *record.Record                   // nil if nothing was recorded
	Kept    map[fsys.Inode]*units.KeptHashes // of the target, by the source's inode
	bound   fsys.Time
	places  map[fsys.Inode]uint64 // place of each directory, see placeOf
	entries int64
}

// LastRecord returns the record of the last first pass, or nil.
func (k *FirstPass) LastRecord() *record.Record {
	if k == nil {
		return nil
	}
	return k.saved
}

// KeptHashes returns the kept hashes, or nil.
func (k *FirstPass) KeptHashes() map[fsys.Inode]*units.KeptHashes {
	if k == nil {
		return nil
	}
	return k.Kept
}

// IsRecorded reports whether a file of the source is recorded and has not changed since.
func (k *FirstPass) IsRecorded(m *fsys.Meta) bool {
	return m.Ctime().Before(k.bound) && k.saved.Search(m.Ino, 0) >= 0
}

// Remaining sums up the files of a tree that a final pass would have to read.
func (k *FirstPass) Remaining(t *tree.Tree) Work {
	var w Work
	k.eachRemaining(t, func(_ *tree.Dir, e *tree.Entry, isMoved bool) {
		w.add(e.Meta.Size, t.DataSize(e))
		if kept := k.Kept[e.Meta.Inode()]; e.Meta.Size >= tree.BigFileMin && !isMoved && kept != nil && kept.Suffices(e.Meta.Size) {
			w.Kept += t.DataSize(e)
		}
	})
	w.Deletions = max(0, k.entries-t.CountEntries())
	return w
}

// eachRemaining calls f for the files that a final pass would have to read, once for all names of a file. Moving a
// directory leaves no trace in the files below it, but the target does not have them in the new place.
func (k *FirstPass) eachRemaining(t *tree.Tree, f func(d *tree.Dir, e *tree.Entry, isMoved bool)) {
	moved := map[*tree.Dir]bool{}
	for _, d := range t.Dirs { // parents come first
		isMoved := moved[d.Parent] || k.places[d.Self.Meta.Inode()] != placeOf(d)
		if isMoved {
			moved[d] = true
		}
		for e := range d.All() {
			if g := t.GroupOf(e); e.Meta.IsRegular() && (g == nil || g.IsLeader(d, e)) && (isMoved || !k.IsRecorded(&e.Meta)) {
				f(d, e, isMoved)
			}
		}
	}
}

// placeOf returns a hash of a directory's name and its parent directory.
func placeOf(d *tree.Dir) uint64 {
	h := fnv.New64a()
	if d.Parent != nil {
		up := d.Parent.Self.Meta.Inode()
		_, _ = fmt.Fprintf(h, "%d %d %s", up.Dev, up.Ino, d.Self.Name)
	}
	return h.Sum64()
}

// NewFirstPass returns the knowledge of a pass over a tree. saved is its record, or nil. Files that changed before bound may be in it.
func NewFirstPass(t *tree.Tree, saved *record.Record, bound fsys.Time) *FirstPass {
	k := &FirstPass{
		saved: saved, bound: bound, places: make(map[fsys.Inode]uint64, len(t.Dirs)), entries: t.CountEntries(),
	}
	for _, d := range t.Dirs {
		k.places[d.Self.Meta.Inode()] = placeOf(d)
	}
	return k
}
