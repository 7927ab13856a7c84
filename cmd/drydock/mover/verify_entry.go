//go:build linux

package mover

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// compareEntry compares an entry, and records a file in a first pass. fresh says that the target's contents in memory were just read from
// the device.
func (v *verifier) compareEntry(ctx context.Context, at pair, e *entry, fresh bool) error {
	var both [2]snapshot
	for k, dirfd := range [2]int{at.src, at.dst} {
		var err error
		if both[k], err = statIn(dirfd, e); err == nil && side(k) == source && both[k].meta != e.meta {
			err = errChanged
		}
		if err != nil {
			return at.fault(side(k), "looking at", e, ifGone(side(k), err))
		}
	}
	g := v.tree.groupOf(e)
	sameContents, err := true, error(nil)
	switch {
	case !e.meta.isRegular() || !both[target].meta.isRegular():
		sameContents, err = e.meta.kind() == both[target].meta.kind() || !v.comparesContents(at.dir, e, g), v.readAttributes(at, e, &both)
	case (!v.isFirst() || v.trust.isRecordable(at.dir, e, g)) && v.isVerified(at.dir, e, g, &both):
		err = v.readAttributes(at, e, &both)
	default:
		sameContents, err = v.compareFile(ctx, at, e, g, &both, fresh)
	}
	if err != nil {
		return err
	}
	found := differences(&both[source], &both[target], g, v.isFirst())
	if !sameContents {
		v.own.invalidate(at.dst, e)
		found = append(found, "its contents differ")
	}
	if err := v.differenceError(at, e, found, sameContents); err != nil || !v.isFirst() || !v.trust.isRecordable(at.dir, e, g) {
		return err
	}
	v.seams.FileConfirmed(at.dir, e.name)
	v.trust.current.add(&e.meta, &both[target].meta, len(both[source].attrs) == 0, both[source].data)
	return nil
}

// isVerified reports whether an earlier pass verified a file that has extended attributes or several names, and counts it.
func (v *verifier) isVerified(d *dir, e *entry, g *group, both *[2]snapshot) bool {
	if _, ok := v.trust.verified(e, &both[target].meta); !ok {
		return false
	}
	v.meter.bytes.Add(both[target].data)
	v.trust.files.Add(1)
	if g == nil || g.isLeader(d, e) { // the bytes of hard links count once
		v.trust.bytes.Add(both[source].data)
	}
	return true
}

// readAttributes reads what stat does not show of an entry whose contents are not read.
func (v *verifier) readAttributes(at pair, e *entry, both *[2]snapshot) (err error) {
	for k, dirfd := range [2]int{at.src, at.dst} {
		if both[k].meta.isSymlink() {
			if both[k].link, err = readlinkat(dirfd, e.name); err != nil {
				return at.fault(side(k), "reading the link", e, ifGone(side(k), err))
			}
		}
		if both[k].attrs, err = named(dirfd, e.name).xattrs(nil); err != nil {
			return at.fault(side(k), "reading extended attributes of", e, ifGone(side(k), err))
		}
	}
	return nil
}

// compareFile reads the attributes of a regular file and compares its contents.
func (v *verifier) compareFile(ctx context.Context, at pair, e *entry, g *group, both *[2]snapshot, fresh bool) (same bool, err error) {
	copied, isCopied := e.copiedSum()
	var fds [2]int
	for k, dirfd := range [2]int{at.src, at.dst} {
		if side(k) == source && isCopied { // such a file has neither attributes nor flags
			continue
		}
		if fds[k], err = openat(dirfd, e.name, unix.O_RDONLY, 0); err != nil {
			return false, at.fault(side(k), "opening", e, ifGone(side(k), err))
		}
		defer unix.Close(fds[k])
		both[k].flags = v.flagsOf(k, fds[k])
		if both[k].attrs, err = opened(fds[k]).xattrs(nil); err != nil {
			return false, at.fault(side(k), "reading extended attributes of", e, err)
		}
	}
	patch := v.completePatch(e, &both[target].meta)
	reads := patch == nil && v.comparesContents(at.dir, e, g)
	if reads && both[source].meta.size != both[target].meta.size {
		return false, nil
	}
	if reads {
		defer func(began time.Time) { v.effort.contents(e.meta.size, both[source].data, began) }(time.Now())
	}
	if reads && !fresh {
		// After the sync none of the target's pages is dirty, so the kernel can drop them all. Then its contents come from the device.
		if err := dropPages(fds[target]); err != nil {
			return false, at.fault(target, "dropping the cache of", e, err)
		}
	}
	switch {
	case patch != nil:
		v.meter.bytes.Add(both[target].data)
		same, err = patch.verify(ctx, fds[target])
	case !reads:
		same = true
	case isCopied:
		same, err = v.compareSum(ctx, fds[target], e, copied)
	default:
		same, err = v.compareBoth(ctx, e, fds, both)
	}
	if err == nil && same {
		err = v.checkUnchanged(fds, isCopied, both)
	}
	if f := (*sideError)(nil); errors.As(err, &f) {
		if f.side == target && f.err == errChanged {
			f.err = mismatch("it is shorter than its size")
		}
		err = at.fault(f.side, "reading", e, ifGone(f.side, f.err))
	}
	return same, err
}

// comparesContents reports whether the verification compares the contents of a file. Those of a file with several names are compared
// once. A first pass compares settled files. Where change times are not trusted, the source may have changed without a trace, so it
// compares the target with the copied bytes, if their hash is kept.
func (v *verifier) comparesContents(d *dir, e *entry, g *group) bool {
	switch {
	case !v.isFirst():
		return g == nil || g.isLeader(d, e)
	case v.trust.current == nil:
		_, known := e.copiedSum()
		return known
	}
	return v.trust.isRecordable(d, e, g)
}

// compareSum compares a small file of the target with the hash of the contents that were copied.
func (v *verifier) compareSum(ctx context.Context, fd int, e *entry, copied sum) (bool, error) {
	buf := buffers.Get()
	defer buffers.Put(buf)
	contents := buf[:e.meta.size]
	if err := readFull(fd, contents, 0); err != nil {
		return false, &sideError{target, err}
	}
	v.meter.bytes.Add(e.meta.size)
	v.limit.wait(ctx, e.meta.size)
	return sha256.Sum256(contents) == copied, nil
}

func (v *verifier) compareBoth(ctx context.Context, e *entry, fds [2]int, both *[2]snapshot) (bool, error) {
	c := comparison{
		fds: fds, size: e.meta.size, data: [2]int64{both[source].data, both[target].data}, limit: v.limit,
		all: [2]bool{!v.src.isTrusted(), !v.dst.isTrusted()}, read: func(n int64) { v.meter.bytes.Add(n) },
	}
	var sums []sum
	if v.isFirst() && v.trust.usable && e.meta.size >= bigFileMin {
		if sums = v.keeper.reserve(e.meta.size); sums != nil {
			c.unit = func(i int64, s sum) { sums[i] = s }
		}
	}
	same, err := c.run(ctx)
	switch {
	case sums == nil:
	case same && err == nil:
		v.keeper.store(e.meta.inode(), both[target].meta, sums)
	default:
		v.keeper.drop(sums)
	}
	return same, err
}

// checkUnchanged fails if a file has changed while it was read.
func (v *verifier) checkUnchanged(fds [2]int, isCopied bool, both *[2]snapshot) error {
	for k, fd := range fds {
		if side(k) == source && isCopied {
			continue
		}
		st, err := fstat(fd)
		if err == nil && metaOf(&st) != both[k].meta {
			err = [2]error{errChanged, mismatch("another process writes to it")}[k]
		}
		if err != nil {
			return &sideError{side(k), err}
		}
	}
	return nil
}

// completePatch returns the complete patch of a file by this final pass, if nothing has changed the target since.
func (v *verifier) completePatch(e *entry, have *meta) *patchedUnits {
	if v.pass != PassFinal || !v.isBig(e) {
		return nil
	}
	if p := v.keeper.patchOf(e.meta.inode()); p != nil && p.done && p.targetAfter == *have {
		return p
	}
	return nil
}
