//go:build linux

// Package verify compares the target with the source after the copy.
package verify

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/fault"
	"drydock.dev/cmd/drydock/mover/forecast"
	"drydock.dev/cmd/drydock/mover/fsys"
	"drydock.dev/cmd/drydock/mover/pool"
	"drydock.dev/cmd/drydock/mover/record"
	"drydock.dev/cmd/drydock/mover/target"
	"drydock.dev/cmd/drydock/mover/tree"
	"drydock.dev/cmd/drydock/mover/units"
)

// Verifier compares both trees, after the flush of the target: attributes, names, links, and contents, those of the target from its device.
// It collects the differences.
//
// A final pass does not read files that an earlier pass verified. A first pass uses the same comparison, so that it fails before the stop
// for what would fail the final pass. The source is in use then, which makes three differences:
//
//   - A change of the source since the scan is no error.
//   - Contents are compared only where a difference proves that the target is wrong, see comparesContents.
//   - Entries that the pass could not read are not compared, see NoteChange.
//
// A first pass records the equal files.
type Verifier struct {
	*tree.Job
	Own         *target.Owner
	Trust       *record.Trust
	Keeper      *units.Keeper
	Effort      *forecast.Effort
	Seams       seams
	LacksFlags  uint32 // inode flags that are not compared
	SourceKnown bool   // the verification need not look at the source of known files again
}

// seams are the points where tests act.
type seams interface {
	FileConfirmed(d *tree.Dir, name string) // before a file is recorded
}

func (v *Verifier) Run(ctx context.Context) error {
	return pool.Run(ctx, v.Workers, func(p *pool.Pool) { p.Add(v.visit(p, v.Tree.Top)) })
}

// isFirst reports whether the source is in use.
func (v *Verifier) isFirst() bool { return v.Pass == tree.PassFirst }

// visit compares a directory and its entries, and adds tasks for its subdirectories. If it has several blocks, other workers compare them
// while this one compares the names.
func (v *Verifier) visit(p *pool.Pool, d *tree.Dir) pool.Task {
	return func(ctx context.Context) error {
		if d.Excluded {
			return nil
		}
		return v.WithDir(d, func(at tree.Pair) error {
			if err := v.collect(d, nil, v.compareDir(at)); err != nil {
				return err
			}
			for sub := range d.Subs() {
				p.Add(v.visit(p, sub))
			}
			switch len(d.Blocks) {
			case 0:
			case 1:
				if err := v.compareBlock(ctx, p, at, 0); err != nil {
					return err
				}
			default:
				p.Add(v.block(p, d, 0))
			}
			return v.collect(d, nil, v.CompareNames(at))
		})
	}
}

// WithDir opens a directory on both sides for f.
func (v *Verifier) WithDir(d *tree.Dir, f func(at tree.Pair) error) error {
	src, err := v.Src.Open(d.Path())
	if err != nil {
		return v.collect(d, nil, fault.New(fault.Source, "opening the directory", d.Path(), err))
	}
	defer unix.Close(src)
	dst, err := v.Dst.Open(d.Path())
	if err != nil {
		return v.collect(d, nil, fault.New(fault.Target, "opening the directory", d.Path(), fault.IfGone(fault.Target, err)))
	}
	defer unix.Close(dst)
	return f(tree.Pair{Dir: d, Src: src, Dst: dst})
}

// collect collects an error of an entry, or of the directory itself if e is nil.
func (v *Verifier) collect(d *tree.Dir, e *tree.Entry, err error) error {
	if err != nil && fault.IsDifference(err) && v.mayLack(d, e) {
		return nil
	}
	return v.Problems.Collect(err)
}

// mayLack reports whether a first pass may have left out an entry of the directory, or a name of its group.
func (v *Verifier) mayLack(d *tree.Dir, e *tree.Entry) bool {
	if !v.isFirst() {
		return false
	}
	if d.Unread.Load() {
		return true
	}
	if e == nil {
		return false
	}
	g := v.Tree.GroupOf(e)
	if g == nil {
		return false
	}
	if g.Failed.Load() { // the scan saw the names at different times, and the inode changed in between
		return true
	}
	for _, m := range g.Names {
		if m.Dir.Unread.Load() || m.Dir.Excluded {
			return true
		}
	}
	return false
}

// compareDir compares a directory's own attributes. Those of the root are compared by VerifyRoot.
func (v *Verifier) compareDir(at tree.Pair) error {
	var both [2]fsys.Snapshot
	for k, fd := range [2]int{at.Src, at.Dst} {
		st, err := fsys.Fstat(fd)
		if err == nil && fault.Side(k) == fault.Source && fsys.MetaOf(&st) != at.Dir.Self.Meta {
			err = fault.ErrChanged
		}
		if err != nil {
			return fault.New(fault.Side(k), "looking at", at.Dir.Path(), err)
		}
		both[k] = fsys.Snapshot{Meta: fsys.MetaOf(&st), Flags: v.flagsOf(k, fd)}
		if both[k].Attrs, err = fsys.Opened(fd).Xattrs(nil); err != nil {
			return fault.New(fault.Side(k), "reading extended attributes of", at.Dir.Path(), err)
		}
	}
	if at.Dir.Parent == nil {
		return nil
	}
	return v.differenceError(at, nil, tree.Differences(&both[fault.Source], &both[fault.Target], nil, false), true)
}

// FlagsOf returns the flags of an open entry that count in a comparison.
func (v *Verifier) flagsOf(side, fd int) uint32 {
	return [2]*fsys.Root{v.Src, v.Dst}[side].FlagsOf(fd) &^ v.LacksFlags
}

// DifferenceError returns an error that lists the differences of an entry, or of the directory itself if e is nil. It returns nil if there
// are none. If only attributes differ in a first pass, the
// source has not changed since the scan, so something alters them after the copy, for example the node or a server. A retry does not
// help.
func (v *Verifier) differenceError(at tree.Pair, e *tree.Entry, found []string, sameContents bool) error {
	if len(found) == 0 {
		return nil
	}
	path := at.Dir.Path()
	if e != nil {
		path = at.Dir.Join(e.Name)
	}
	if sameContents && v.isFirst() {
		return fault.New(fault.Target, "keeping the attributes of", path, fmt.Errorf("%w: %s", fault.ErrNotKept, strings.Join(found, ", ")))
	}
	return target.DifferenceError(path, found)
}

// CompareNames finds names in the target that the source does not have, and the lack of names that it has. All names of the
// source are looked up in the target anyway, so equal numbers prove equal names. Lookups alone do not: in a directory that
// ignores case, two names of the source find one entry. The root may have names of the mover and of the file system besides,
// so its number proves nothing.
func (v *Verifier) CompareNames(at tree.Pair) error {
	d, fd := at.Dir, at.Dst
	n, err := fsys.CountNames(fd)
	if err == nil && n == d.Count() && d.Parent != nil {
		return nil
	}
	names := fsys.NameList{}
	if err == nil {
		names, err = fsys.Readdir(fd)
	}
	if err != nil {
		return fault.New(fault.Target, "reading the directory", d.Path(), err)
	}
	known, found := tree.Finder{Dir: d}, 0
	for name := range names.All() {
		if known.Find(name.Name) != nil {
			found++
			continue
		}
		if v.Own.IsOwnName(d, name.Name) {
			continue
		}
		if d.IsLostFound(name.Name) {
			if state, err := tree.LostFoundIn(fd); err == nil && state != tree.LostFoundOrdinary {
				continue
			}
		}
		err := fault.New(fault.Target, "comparing", d.Join(name.Name), fault.Mismatch("the source has no such entry"))
		if err := v.collect(d, nil, err); err != nil {
			return err
		}
	}
	if found == d.Count() || v.isFirst() && !findsOtherNames(d, fd, names) {
		return nil
	}
	return v.collect(d, nil, fault.New(fault.Target, "comparing", d.Path(), fault.Mismatch(fmt.Sprintf(
		"it has only %d of the %d names of the source; it may ignore the case of names", found, d.Count()))))
}

// findsOtherNames reports whether a lookup in a directory of the target finds a name of the source that the directory does not list.
func findsOtherNames(d *tree.Dir, fd int, names fsys.NameList) bool {
	listed := map[string]bool{}
	for name := range names.All() {
		listed[name.Name] = true
	}
	for e := range d.All() {
		if listed[e.Name] {
			continue
		}
		if _, err := fsys.Lstatat(fd, e.Name); err == nil {
			return true
		}
	}
	return false
}

// needsNoLook reports whether nothing in a block must be looked at, because the copy has done that.
func (v *Verifier) needsNoLook(b *tree.Block) bool {
	return (v.isFirst() || v.SourceKnown) && b.IsKnown()
}

func (v *Verifier) block(p *pool.Pool, d *tree.Dir, i int) pool.Task {
	return func(ctx context.Context) error {
		for ; i < len(d.Blocks) && v.needsNoLook(&d.Blocks[i]); i++ {
			v.Meter.Files.Add(int64(d.Blocks[i].Count - len(d.Blocks[i].Subs)))
		}
		if i == len(d.Blocks) {
			return nil
		}
		return v.WithDir(d, func(at tree.Pair) error { return v.compareBlock(ctx, p, at, i) })
	}
}

// CompareBlock compares a block of a directory. Before that, it adds tasks for the blocks after it.
func (v *Verifier) compareBlock(ctx context.Context, p *pool.Pool, at tree.Pair, i int) error {
	d := at.Dir
	if i+1 < len(d.Blocks) {
		p.Add(v.block(p, d, i+1))
	}
	if v.needsNoLook(&d.Blocks[i]) {
		v.Meter.Files.Add(int64(d.Blocks[i].Count - len(d.Blocks[i].Subs)))
		return nil
	}
	buf := tree.EntryBuffers.Get()
	entries := d.Blocks[i].Unpack(buf[:])
	shared := false
	var err error
	tree.EachChunk(entries, d.ChunkLimit(), func(lo, hi int) {
		if hi == len(entries) { // this worker takes the last chunk, which is usually the only one
			err = v.compareChunk(ctx, at, entries[lo:hi])
			return
		}
		shared = true
		p.Add(func(ctx context.Context) error {
			return v.WithDir(d, func(at tree.Pair) error { return v.compareChunk(ctx, at, entries[lo:hi]) })
		})
	})
	if !shared {
		tree.EntryBuffers.Put(buf)
	}
	return err
}

func (v *Verifier) compareChunk(ctx context.Context, at tree.Pair, entries []tree.Entry) error {
	defer v.Effort.Task(time.Now())
	var ahead prefetcher
	for i := range entries {
		e := &entries[i]
		if e.Sub != nil {
			continue
		}
		if i%16 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		err := error(nil)
		if e.IsKnown() {
			err = v.lookAgain(at, e)
		} else {
			if v.Limit == nil {
				ahead.advance(v, at, entries, i)
			}
			err = v.compareEntry(ctx, at, e, ahead.isFresh(e))
		}
		if err := v.collect(at.Dir, e, err); err != nil {
			return err
		}
		v.Meter.Files.Add(1)
	}
	return nil
}

// lookAgain looks at a file of the source that the copy found unchanged, if it can have changed since without a trace in the tree.
func (v *Verifier) lookAgain(at tree.Pair, e *tree.Entry) error {
	if v.isFirst() || v.SourceKnown {
		return nil
	}
	return stillUnchanged(at, e)
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

// advance reads ahead if the worker is at entry i and has caught up. It skips entries that will not be read. A failure does not
// matter: such a file is read later.
func (p *prefetcher) advance(v *Verifier, at tree.Pair, entries []tree.Entry, i int) {
	if i < p.next {
		return
	}
	p.next = i
	clear(p.fresh)
	bytes := int64(0)
	for files := 0; p.next < len(entries) && files < prefetchFiles && bytes < prefetchBytes; p.next++ {
		e := &entries[p.next]
		if !e.Meta.IsRegular() || e.Meta.Size == 0 || e.Meta.Size >= tree.BigFileMin || e.Meta.Nlink != 1 || e.IsKnown() ||
			!v.comparesContents(at.Dir, e, nil) {
			continue
		}
		if prefetch(at.Dst, e.Name) == nil {
			if p.fresh == nil {
				p.fresh = map[string]bool{}
			}
			p.fresh[e.Name] = true
		}
		files++
		bytes += e.Meta.Size
	}
}

func (p *prefetcher) isFresh(e *tree.Entry) bool { return p.fresh[e.Name] }

func prefetch(dirfd int, name string) error {
	fd, err := fsys.Openat(dirfd, name, unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := fsys.DropPages(fd); err != nil {
		return err
	}
	return fsys.IgnoringEINTR(func() error { return unix.Fadvise(fd, 0, 0, unix.FADV_WILLNEED) })
}
