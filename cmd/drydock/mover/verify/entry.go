//go:build linux

package verify

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/fault"
	"drydock.dev/cmd/drydock/mover/fsys"
	"drydock.dev/cmd/drydock/mover/tree"
	"drydock.dev/cmd/drydock/mover/units"
)

// compareEntry compares an entry, and records a file in a first pass. fresh says that the target's contents in memory were just read from
// the device.
func (v *Verifier) compareEntry(ctx context.Context, at tree.Pair, e *tree.Entry, fresh bool) error {
	var both [2]fsys.Snapshot
	for k, dirfd := range [2]int{at.Src, at.Dst} {
		var err error
		if both[k], err = fsys.StatIn(dirfd, e.Terminated); err == nil && fault.Side(k) == fault.Source && both[k].Meta != e.Meta {
			err = fault.ErrChanged
		}
		if err != nil {
			return at.Fault(fault.Side(k), "looking at", e, fault.IfGone(fault.Side(k), err))
		}
	}
	g := v.Tree.GroupOf(e)
	sameContents, err := true, error(nil)
	switch {
	case !e.Meta.IsRegular() || !both[fault.Target].Meta.IsRegular():
		sameContents, err = e.Meta.Kind() == both[fault.Target].Meta.Kind() || !v.comparesContents(at.Dir, e, g), v.readAttributes(at, e, &both)
	case (!v.isFirst() || v.Trust.IsRecordable(at.Dir, e, g)) && v.isVerified(at.Dir, e, g, &both):
		err = v.readAttributes(at, e, &both)
	default:
		sameContents, err = v.compareFile(ctx, at, e, g, &both, fresh)
	}
	if f := (*fault.Fault)(nil); errors.As(err, &f) && f.Side == fault.Target { // it cannot be read, or another process has written to it
		v.Own.Invalidate(at.Dst, e)
	}
	if err != nil {
		return err
	}
	found := tree.Differences(&both[fault.Source], &both[fault.Target], g, v.isFirst())
	if len(found) > 0 || !sameContents {
		if err := stillUnchanged(at, e); err != nil {
			return err
		}
	}
	if !sameContents {
		v.Own.Invalidate(at.Dst, e)
		found = append(found, "its contents differ")
	}
	if err := v.differenceError(at, e, found, sameContents); err != nil || !v.isFirst() || !v.Trust.IsRecordable(at.Dir, e, g) {
		return err
	}
	v.Seams.FileConfirmed(at.Dir, e.Name)
	v.Trust.Current.Add(&e.Meta, &both[fault.Target].Meta, len(both[fault.Source].Attrs) == 0, both[fault.Source].Data)
	return nil
}

// stillUnchanged fails if an entry of the source has changed since the scan. Then a difference is no fault of the target.
func stillUnchanged(at tree.Pair, e *tree.Entry) error {
	now, err := fsys.StatIn(at.Src, e.Terminated)
	if err == nil && now.Meta != e.Meta {
		err = fault.ErrChanged
	}
	if err != nil {
		return at.Fault(fault.Source, "looking at", e, err)
	}
	return nil
}

// isVerified reports whether an earlier pass verified a file that has extended attributes or several names, and counts it.
func (v *Verifier) isVerified(d *tree.Dir, e *tree.Entry, g *tree.Group, both *[2]fsys.Snapshot) bool {
	if _, ok := v.Trust.Verified(e, &both[fault.Target].Meta); !ok {
		return false
	}
	v.Meter.Bytes.Add(both[fault.Target].Data)
	v.Trust.Files.Add(1)
	if g == nil || g.IsLeader(d, e) { // the bytes of hard links count once
		v.Trust.Bytes.Add(both[fault.Source].Data)
	}
	return true
}

// readAttributes reads what stat does not show of an entry whose contents are not read.
func (v *Verifier) readAttributes(at tree.Pair, e *tree.Entry, both *[2]fsys.Snapshot) (err error) {
	for k, dirfd := range [2]int{at.Src, at.Dst} {
		if both[k].Meta.IsSymlink() {
			if both[k].Link, err = fsys.Readlinkat(dirfd, e.Name); err != nil {
				return at.Fault(fault.Side(k), "reading the link", e, fault.IfGone(fault.Side(k), err))
			}
		}
		if both[k].Attrs, err = fsys.Named(dirfd, e.Name).Xattrs(nil); err != nil {
			return at.Fault(fault.Side(k), "reading extended attributes of", e, fault.IfGone(fault.Side(k), err))
		}
	}
	return nil
}

// compareFile reads the attributes of a regular file and compares its contents.
func (v *Verifier) compareFile(
	ctx context.Context, at tree.Pair, e *tree.Entry, g *tree.Group, both *[2]fsys.Snapshot, fresh bool,
) (same bool, err error) {
	copied, isCopied := e.CopiedSum()
	var fds [2]int
	for k, dirfd := range [2]int{at.Src, at.Dst} {
		if fault.Side(k) == fault.Source && isCopied { // such a file has neither attributes nor flags
			continue
		}
		if fds[k], err = fsys.Openat(dirfd, e.Name, unix.O_RDONLY, 0); err != nil {
			return false, at.Fault(fault.Side(k), "opening", e, fault.IfGone(fault.Side(k), err))
		}
		defer unix.Close(fds[k])
		both[k].Flags = v.flagsOf(k, fds[k])
		if both[k].Attrs, err = fsys.Opened(fds[k]).Xattrs(nil); err != nil {
			return false, at.Fault(fault.Side(k), "reading extended attributes of", e, err)
		}
	}
	patch := v.completePatch(e, &both[fault.Target].Meta)
	reads := patch == nil && v.comparesContents(at.Dir, e, g)
	if reads && both[fault.Source].Meta.Size != both[fault.Target].Meta.Size {
		return false, nil
	}
	if reads {
		defer func(began time.Time) { v.Effort.Contents(e.Meta.Size, both[fault.Source].Data, began) }(time.Now())
	}
	if reads && !fresh {
		// After the sync none of the target's pages is dirty, so the kernel can drop them all. Then its contents come from the device.
		if err := fsys.DropPages(fds[fault.Target]); err != nil {
			return false, at.Fault(fault.Target, "dropping the cache of", e, err)
		}
	}
	switch {
	case patch != nil:
		v.Meter.Bytes.Add(both[fault.Target].Data)
		same, err = patch.Verify(ctx, fds[fault.Target])
	case !reads:
		same = true
	case isCopied:
		same, err = v.compareSum(ctx, fds[fault.Target], e, copied)
	default:
		same, err = v.compareBoth(ctx, e, fds, both)
	}
	if err == nil { // also if the contents differ: a change of the source is the likely cause, and no fault of the target
		err = v.checkUnchanged(fds, isCopied, both)
	}
	if f := (*units.SideError)(nil); errors.As(err, &f) {
		if f.Side == fault.Target && f.Err == fault.ErrChanged {
			f.Err = fault.Mismatch("it is shorter than its size")
		}
		err = at.Fault(f.Side, "reading", e, fault.IfGone(f.Side, f.Err))
	}
	return same, err
}

// comparesContents reports whether the verification compares the contents of a file. Those of a file with several names are compared
// once. A first pass compares settled files. Where change times are not trusted, the source may have changed without a trace, so it
// compares the target with the copied bytes, if their hash is kept.
func (v *Verifier) comparesContents(d *tree.Dir, e *tree.Entry, g *tree.Group) bool {
	switch {
	case !v.isFirst():
		return g == nil || g.IsLeader(d, e)
	case v.Trust.Current == nil:
		_, known := e.CopiedSum()
		return known
	}
	return v.Trust.IsRecordable(d, e, g)
}

// compareSum compares a small file of the target with the hash of the contents that were copied.
func (v *Verifier) compareSum(ctx context.Context, fd int, e *tree.Entry, copied units.Sum) (bool, error) {
	buf := fsys.Buffers.Get()
	defer fsys.Buffers.Put(buf)
	contents := buf[:e.Meta.Size]
	if err := fsys.ReadFull(fd, contents, 0); err != nil {
		return false, &units.SideError{Side: fault.Target, Err: err}
	}
	v.Meter.Bytes.Add(e.Meta.Size)
	v.Limit.Wait(ctx, e.Meta.Size)
	return sha256.Sum256(contents) == copied, nil
}

func (v *Verifier) compareBoth(ctx context.Context, e *tree.Entry, fds [2]int, both *[2]fsys.Snapshot) (bool, error) {
	c := units.Comparison{
		Fds: fds, Size: e.Meta.Size, Data: [2]int64{both[fault.Source].Data, both[fault.Target].Data}, Limit: v.Limit,
		All: [2]bool{!v.Src.IsTrusted(), !v.Dst.IsTrusted()}, Read: func(n int64) { v.Meter.Bytes.Add(n) },
	}
	var sums []units.Sum
	if v.isFirst() && v.Trust.Usable && e.Meta.Size >= tree.BigFileMin {
		if sums = v.Keeper.Reserve(e.Meta.Size); sums != nil {
			c.Unit = func(i int64, s units.Sum) { sums[i] = s }
		}
	}
	same, err := c.Run(ctx)
	switch {
	case sums == nil:
	case same && err == nil:
		v.Keeper.Store(e.Meta.Inode(), both[fault.Target].Meta, sums)
	default:
		v.Keeper.Drop(sums)
	}
	return same, err
}

// checkUnchanged fails if a file has changed while it was read.
func (v *Verifier) checkUnchanged(fds [2]int, isCopied bool, both *[2]fsys.Snapshot) error {
	for k, fd := range fds {
		if fault.Side(k) == fault.Source && isCopied {
			continue
		}
		st, err := fsys.Fstat(fd)
		if err == nil && fsys.MetaOf(&st) != both[k].Meta {
			err = [2]error{fault.ErrChanged, fault.Mismatch("another process writes to it")}[k]
		}
		if err != nil {
			return &units.SideError{Side: fault.Side(k), Err: err}
		}
	}
	return nil
}

// completePatch returns the complete patch of a file by this final pass, if nothing has changed the target since.
func (v *Verifier) completePatch(e *tree.Entry, have *fsys.Meta) *units.Patch {
	if v.Pass != tree.PassFinal || !v.IsBig(e) {
		return nil
	}
	if p := v.Keeper.PatchOf(e.Meta.Inode()); p != nil && p.Done && p.TargetAfter == *have {
		return p
	}
	return nil
}
