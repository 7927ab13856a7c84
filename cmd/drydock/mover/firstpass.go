//go:build linux

package mover

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"golang.org/x/sys/unix"
)

// firstPassState is the knowledge of a completed first pass about the source.
type firstPassState struct {
	saved   *inodeSet             // the recorded files; nil if nothing was recorded
	kept    map[inode]*keptHashes // of the target, by the source's inode
	bound   unixTime
	places  map[inode]uint64 // place of each directory, see placeOf
	entries int64
}

func (c *copier) newFirstPassState() *firstPassState {
	k := &firstPassState{
		saved: c.twoPass.saved, bound: c.twoPass.bound,
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
	return k.saved != nil && m.ctime().before(k.bound) && k.saved.contains(m.ino)
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

// sampleSize is how much of a big file is verified to measure the speed of verification.
const sampleSize = 64 << 20

// sampleCheck measures the verification of a big file that this pass cannot record because it is in use. The final pass
// has to verify it. Errors do not matter here: the final pass reports them.
func (c *copier) sampleCheck(ctx context.Context, k *firstPassState) {
	if c.cost.check.bigBytes.Load() > 0 || !c.tree.hasBig {
		return
	}
	d, e := k.largestRemaining(c.tree)
	if e == nil || k.kept[e.meta.inode()] != nil { // the verification reads only what differs
		return
	}
	s := c.newHasher()
	fds, err := s.open(d)
	defer closeAll(fds)
	if err != nil {
		return
	}
	size := min(e.meta.size, sampleSize)
	began := time.Now()
	err = inParallel(func(side int) error { return s.hashSample(ctx, side, fds[side], e.name, size) })
	if err == nil {
		c.cost.check.contents(e.meta.size, min(c.tree.dataSize(e), size), began)
	}
	c.limit.wait(ctx, 2*size)
}

// hashSample hashes the beginning of a file, the target's from its device.
func (s *treeHasher) hashSample(ctx context.Context, side, dirfd int, name string, size int64) error {
	fd, err := openat(dirfd, name, unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if s.sides[side].side == target {
		if err := ignoringEINTR(func() error { return unix.Fadvise(fd, 0, size, unix.FADV_DONTNEED) }); err != nil {
			return err
		}
	}
	_, err = hashContents(ctx, fd, size, 0, hashing{})
	return err
}

// largestRemaining returns the largest big file that the final pass has to read, or nil.
func (k *firstPassState) largestRemaining(t *tree) (in *dir, largest *entry) {
	k.eachRemaining(t, func(d *dir, e *entry, _ bool) {
		if e.meta.size >= bigFileMin && (largest == nil || t.dataSize(e) > t.dataSize(largest)) {
			copied := *e
			in, largest = d, &copied
		}
	})
	return in, largest
}

var errNoFirstPass = errors.New("the last pass over these trees did not succeed")

// Survey scans the source and returns the figures of the last first pass, with Remaining as it is now. It reads no
// contents and does not access the target. It uses the options Source, Workers and Progress. Any error is an *Error.
func Survey(ctx context.Context, o Options, last Result) (Figures, error) {
	if last.state == nil {
		return Figures{}, usageError(errNoFirstPass)
	}
	src, err := openRoot(o.Source, source)
	if err != nil {
		return Figures{}, toError(rootError(err), nil)
	}
	defer src.close()
	m := newMeter(o.Progress, o.ProgressInterval)
	defer m.close()
	p := problems{sourceActive: true}
	t, err := scan(ctx, src, workerCount(o.Workers), m, &p)
	if err == nil {
		err = p.err()
	}
	if err != nil {
		return Figures{}, toError(err, nil)
	}
	f := last.Figures
	f.Remaining = last.state.remaining(t)
	return f, nil
}
