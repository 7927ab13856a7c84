//go:build linux

package mover

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// verifier compares both trees, after the flush of the target: attributes, names, links, and contents, those of the target from its device.
// It collects the differences.
//
// A final pass does not read files that an earlier pass verified. A first pass uses the same comparison, so that it fails before the stop
// for what would fail the final pass. The source is in use then, which makes three differences:
//
//   - A change of the source since the scan is no error.
//   - Contents are compared only where a difference proves that the target is wrong, see comparesContents.
//   - Entries that the pass could not read are not compared, see noteChange.
//
// A first pass records the equal files.
type verifier struct {
	*job
	own         *owner
	trust       *trust
	keeper      *keeper
	effort      *effort
	seams       verifySeams
	lacksFlags  uint32 // inode flags that are not compared
	sourceKnown bool   // see copier.sourceIsSettled
}

// verifySeams are the points where tests act.
type verifySeams interface {
	FileConfirmed(d *dir, name string) // before a file is recorded
}

func (v *verifier) run(ctx context.Context) error {
	return runPool(ctx, v.workers, func(p *pool) { p.add(v.visit(p, v.tree.top)) })
}

// isFirst reports whether the source is in use.
func (v *verifier) isFirst() bool { return v.pass == PassFirst }

// visit compares a directory and its entries, and adds tasks for its subdirectories. If it has several blocks, other workers compare them
// while this one compares the names.
func (v *verifier) visit(p *pool, d *dir) task {
	return func(ctx context.Context) error {
		if d.excluded {
			return nil
		}
		return v.withDir(d, func(at pair) error {
			if err := v.collect(d, nil, v.compareDir(at)); err != nil {
				return err
			}
			for sub := range d.subs() {
				p.add(v.visit(p, sub))
			}
			switch len(d.blocks) {
			case 0:
			case 1:
				if err := v.compareBlock(ctx, p, at, 0); err != nil {
					return err
				}
			default:
				p.add(v.block(p, d, 0))
			}
			return v.collect(d, nil, v.compareNames(at))
		})
	}
}

// withDir opens a directory on both sides for f.
func (v *verifier) withDir(d *dir, f func(at pair) error) error {
	src, err := v.src.open(d)
	if err != nil {
		return v.collect(d, nil, newFault(source, "opening the directory", d.path(), err))
	}
	defer unix.Close(src)
	dst, err := v.dst.open(d)
	if err != nil {
		return v.collect(d, nil, newFault(target, "opening the directory", d.path(), ifGone(target, err)))
	}
	defer unix.Close(dst)
	return f(pair{d, src, dst})
}

// collect collects an error of an entry, or of the directory itself if e is nil.
func (v *verifier) collect(d *dir, e *entry, err error) error {
	if err != nil && isDifference(err) && v.mayLack(d, e) {
		return nil
	}
	return v.problems.collect(err)
}

// mayLack reports whether a first pass may have left out an entry of the directory, or a name of its group.
func (v *verifier) mayLack(d *dir, e *entry) bool {
	if !v.isFirst() {
		return false
	}
	if d.unread.Load() {
		return true
	}
	if e == nil {
		return false
	}
	g := v.tree.groupOf(e)
	if g == nil {
		return false
	}
	for _, m := range g.names {
		if m.dir.unread.Load() || m.dir.excluded {
			return true
		}
	}
	return false
}

// compareDir compares a directory's own attributes. Those of the root are compared by verifyRoot.
func (v *verifier) compareDir(at pair) error {
	var both [2]snapshot
	for k, fd := range [2]int{at.src, at.dst} {
		st, err := fstat(fd)
		if err == nil && side(k) == source && metaOf(&st) != at.dir.self.meta {
			err = errChanged
		}
		if err != nil {
			return newFault(side(k), "looking at", at.dir.path(), err)
		}
		both[k] = snapshot{meta: metaOf(&st), flags: v.flagsOf(k, fd)}
		if both[k].attrs, err = opened(fd).xattrs(nil); err != nil {
			return newFault(side(k), "reading extended attributes of", at.dir.path(), err)
		}
	}
	if at.dir.parent == nil {
		return nil
	}
	return v.differenceError(at, nil, differences(&both[source], &both[target], nil, false), true)
}

// flagsOf returns the flags of an open entry that count in a comparison.
func (v *verifier) flagsOf(side, fd int) uint32 {
	return [2]*root{v.src, v.dst}[side].flagsOf(fd) &^ v.lacksFlags
}

// differenceError returns an error that lists the differences of an entry, or of the directory itself if e is nil. It returns nil if there
// are none. If only attributes differ in a first pass, the
// source has not changed since the scan, so something alters them after the copy, for example the node or a server. A retry does not
// help.
func (v *verifier) differenceError(at pair, e *entry, found []string, sameContents bool) error {
	if len(found) == 0 {
		return nil
	}
	path := at.dir.path()
	if e != nil {
		path = at.dir.join(e.name)
	}
	if sameContents && v.isFirst() {
		return newFault(target, "keeping the attributes of", path, fmt.Errorf("%w: %s", errNotKept, strings.Join(found, ", ")))
	}
	return differenceError(path, found)
}

// compareNames finds names in the target that the source does not have, and the lack of names that it has. All names of the
// source are looked up in the target anyway, so equal numbers prove equal names. Lookups alone do not: in a directory that
// ignores case, two names of the source find one entry. The root may have names of the mover and of the file system besides,
// so its number proves nothing.
func (v *verifier) compareNames(at pair) error {
	d, fd := at.dir, at.dst
	n, err := countNames(fd)
	if err == nil && n == d.count() && d.parent != nil {
		return nil
	}
	names := nameList{}
	if err == nil {
		names, err = readdir(fd)
	}
	if err != nil {
		return newFault(target, "reading the directory", d.path(), err)
	}
	known, found := finder{dir: d}, 0
	for name := range names.all() {
		if known.find(name.name) != nil {
			found++
			continue
		}
		if v.own.isOwnName(d, name.name) {
			continue
		}
		if d.isLostFound(name.name) {
			if state, err := lostFoundIn(fd); err == nil && state != lostFoundOrdinary {
				continue
			}
		}
		if err := v.collect(d, nil, newFault(target, "comparing", d.join(name.name), mismatch("the source has no such entry"))); err != nil {
			return err
		}
	}
	if found == d.count() || v.isFirst() && !findsOtherNames(d, fd, names) {
		return nil
	}
	return v.collect(d, nil, newFault(target, "comparing", d.path(), mismatch(fmt.Sprintf(
		"it has only %d of the %d names of the source; it may ignore the case of names", found, d.count()))))
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

// needsNoLook reports whether nothing in a block must be looked at, because the copy has done that.
func (v *verifier) needsNoLook(b *block) bool { return (v.isFirst() || v.sourceKnown) && b.isKnown() }

func (v *verifier) block(p *pool, d *dir, i int) task {
	return func(ctx context.Context) error {
		for ; i < len(d.blocks) && v.needsNoLook(&d.blocks[i]); i++ {
			v.meter.files.Add(int64(d.blocks[i].count - len(d.blocks[i].subs)))
		}
		if i == len(d.blocks) {
			return nil
		}
		return v.withDir(d, func(at pair) error { return v.compareBlock(ctx, p, at, i) })
	}
}

// compareBlock compares a block of a directory. Before that, it adds tasks for the blocks after it.
func (v *verifier) compareBlock(ctx context.Context, p *pool, at pair, i int) error {
	d := at.dir
	if i+1 < len(d.blocks) {
		p.add(v.block(p, d, i+1))
	}
	if v.needsNoLook(&d.blocks[i]) {
		v.meter.files.Add(int64(d.blocks[i].count - len(d.blocks[i].subs)))
		return nil
	}
	buf := entryBuffers.Get()
	entries := d.blocks[i].unpack(buf[:])
	shared := false
	var err error
	eachChunk(entries, d.chunkLimit(), func(lo, hi int) {
		if hi == len(entries) { // this worker takes the last chunk, which is usually the only one
			err = v.compareChunk(ctx, at, entries[lo:hi])
			return
		}
		shared = true
		p.add(func(ctx context.Context) error {
			return v.withDir(d, func(at pair) error { return v.compareChunk(ctx, at, entries[lo:hi]) })
		})
	})
	if !shared {
		entryBuffers.Put(buf)
	}
	return err
}

func (v *verifier) compareChunk(ctx context.Context, at pair, entries []entry) error {
	defer v.effort.task(time.Now())
	var ahead prefetcher
	for i := range entries {
		e := &entries[i]
		if e.sub != nil {
			continue
		}
		if i%16 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		err := error(nil)
		if e.isKnown() {
			err = v.lookAgain(at, e)
		} else {
			if v.limit == nil {
				ahead.advance(v, at, entries, i)
			}
			err = v.compareEntry(ctx, at, e, ahead.isFresh(e))
		}
		if err := v.collect(at.dir, e, err); err != nil {
			return err
		}
		v.meter.files.Add(1)
	}
	return nil
}

// lookAgain looks at a file of the source that the copy found unchanged, if it can have changed since without a trace in the tree.
func (v *verifier) lookAgain(at pair, e *entry) error {
	if v.isFirst() || v.sourceKnown {
		return nil
	}
	now, err := statIn(at.src, e)
	if err == nil && now.meta != e.meta {
		err = errChanged
	}
	if err != nil {
		return at.fault(source, "looking at", e, err)
	}
	return nil
}
