//go:build linux

package mover

import (
	"context"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// entryReader reads one entry on one side, including its contents.
type entryReader struct {
	*treeHasher
	side  side
	dir   *dir
	entry *entry
	group *group // may be nil
	fresh bool   // the contents in memory were just read from the device, see prefetch
}

func (r entryReader) fault(op string, err error) error {
	return &fault{r.side, op, r.dir.join(r.entry.name), ifGone(r.side, err)}
}

// rootOf returns the root of the entry's side.
func (r entryReader) rootOf() *root {
	if len(r.sides) == 1 {
		return r.sides[0]
	}
	return r.sides[r.side]
}

// stat fails with errChanged if the source entry has changed since the scan.
func (r entryReader) stat(dirfd int) (snapshot, error) {
	st, err := lstatat(dirfd, r.entry.name)
	if err != nil {
		return snapshot{}, r.fault("looking at", err)
	}
	l := snapshot{meta: metaOf(&st), data: dataBytes(&st)}
	if r.side == source && l.meta != r.entry.meta {
		return l, r.fault("looking at", errChanged)
	}
	return l, nil
}

// readDetails reads what stat does not show. It does not read contents that are known.
func (r entryReader) readDetails(ctx context.Context, dirfd int, l snapshot, known *sum) (snapshot, error) {
	name := r.entry.name
	o := named(dirfd, name)
	var err error
	switch {
	case known != nil:
		l.content = *known
	case l.meta.isRegular():
		fd, err := openat(dirfd, name, unix.O_RDONLY, 0)
		if err != nil {
			return l, r.fault("opening", err)
		}
		defer unix.Close(fd)
		o = opened(fd)
		l.flags = r.comparedFlags(r.side, fd)
		if l.content, err = r.hashOnce(ctx, fd, l); err != nil {
			return l, err
		}
	case l.meta.isSymlink():
		if l.link, err = readlinkat(dirfd, name); err != nil {
			return l, r.fault("reading the link", err)
		}
	}
	if l.attrs, err = o.xattrs(nil); err != nil {
		return l, r.fault("reading extended attributes of", err)
	}
	return l, nil
}

// hashOnce hashes a file once for all of its names.
func (r entryReader) hashOnce(ctx context.Context, fd int, l snapshot) (sum, error) {
	if r.group == nil || r.side == target && !r.group.isFirstInode(l.meta.ino) {
		return r.hashOpen(ctx, fd, l)
	}
	once := &r.group.sums[r.side]
	once.once.Do(func() { once.sum, once.err = r.hashOpen(ctx, fd, l) })
	return once.sum, once.err
}

// hashOpen hashes an open file. The target's contents come from its device, not from memory: after the sync none of its
// pages is dirty, so the kernel can drop them all.
func (r entryReader) hashOpen(ctx context.Context, fd int, l snapshot) (sum, error) {
	m := l.meta
	if r.side == target && !r.fresh {
		if err := ignoringEINTR(func() error { return unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED) }); err != nil {
			return sum{}, r.fault("dropping the cache of", err)
		}
	}
	calls := hashing{read: r.counter(ctx), all: !r.rootOf().isTrusted()}
	sums := r.reserve(m.size)
	if sums != nil {
		calls.unit = func(i int64, s sum) { sums[i] = s }
	}
	content, err := hashContents(ctx, fd, m.size, l.data, calls)
	if err != nil {
		if r.side == target && err == errChanged {
			err = mismatch("it is shorter than its size")
		}
		return sum{}, r.fault("reading", err)
	}
	st, err := fstat(fd)
	if err == nil && metaOf(&st) != m {
		err = errChanged
		if r.side == target {
			err = mismatch("another process writes to it")
		}
	}
	if err != nil {
		return sum{}, r.fault("reading", err)
	}
	if sums != nil {
		r.keeper.store(r.entry.meta.inode(), m, sums)
	}
	return content, nil
}

// reserve returns room for the hashes of a big file of the target, or nil if they are not kept.
func (r entryReader) reserve(size int64) []sum {
	if r.keeper == nil || r.side != target || size < bigFileMin {
		return nil
	}
	return r.keeper.reserve(size)
}

func (r entryReader) counter(ctx context.Context) func(int64) {
	counted := int(r.side) == len(r.sides)-1
	return func(n int64) {
		if counted {
			r.meter.bytes.Add(n)
		}
		r.limit.wait(ctx, n)
	}
}

// verifyUnits reads the units that a patch has written from the device.
func (r entryReader) verifyUnits(ctx context.Context, dirfd int, have *meta, p *patchedUnits) error {
	fd, err := openat(dirfd, r.entry.name, unix.O_RDONLY, 0)
	if err != nil {
		return r.fault("opening", err)
	}
	defer unix.Close(fd)
	err = p.verify(ctx, fd)
	if kindOf(err) == kindDiffers {
		r.invalidate(dirfd, r.entry)
		return r.fault("comparing", err)
	}
	st, serr := fstat(fd)
	if err == nil {
		err = serr
	}
	if err == nil && metaOf(&st) != *have {
		err = mismatch("another process writes to it")
	}
	if err != nil {
		return r.fault("reading", err)
	}
	return nil
}

// differenceError returns an error for an entry of the target with differences, or nil if there are none.
func differenceError(path string, differences []string) error {
	if len(differences) == 0 {
		return nil
	}
	return &fault{target, "comparing", path, mismatch(strings.Join(differences, ", "))}
}

// differences lists in phrases how an entry of the target differs from the source. The target of a first pass may have more names than the
// source: where a file changes during the pass, its name keeps the link of an earlier pass. Such a name is compared by itself.
func differences(src, dst *snapshot, g *group, firstPass bool) []string {
	found := attributeDifferences(&src.meta, &dst.meta)
	note := phraseCollector(&found)
	note(src.link != dst.link, "it has another link target")
	note(src.content != dst.content, "its contents differ")
	note(!sameXattrs(src.attrs, dst.attrs), "its extended attributes differ")
	note(src.flags != dst.flags, "its inode flags (chattr) are %q, not %q", flagNames(dst.flags), flagNames(src.flags))
	if !src.meta.isDir() {
		hasMore := dst.meta.nlink > g.linkCount() && !firstPass
		note(hasMore || dst.meta.nlink < g.linkCount(), "it has %d names, not %d", dst.meta.nlink, g.linkCount())
		note(g != nil && !g.isFirstInode(dst.meta.ino), "it is not hard linked with the other names")
	}
	return found
}

// attributeDifferences lists the differences in the attributes that sameAttributes compares.
func attributeDifferences(a, b *meta) (found []string) {
	note := phraseCollector(&found)
	note(a.kind() != b.kind(), "its type is 0%o, not 0%o", b.kind(), a.kind())
	note(a.permissions() != b.permissions(), "its mode is 0%o, not 0%o", b.permissions(), a.permissions())
	note(a.uid != b.uid || a.gid != b.gid, "its owner is %d:%d, not %d:%d", b.uid, b.gid, a.uid, a.gid)
	note(a.size != b.size, "its size is %d, not %d", b.size, a.size)
	note(a.mtimeSec != b.mtimeSec || a.mtimeNsec != b.mtimeNsec,
		"its time is %d.%09d, not %d.%09d", b.mtimeSec, b.mtimeNsec, a.mtimeSec, a.mtimeNsec)
	return found
}

// phraseCollector returns a function that adds a phrase if something differs.
func phraseCollector(found *[]string) func(differs bool, format string, args ...any) {
	return func(differs bool, format string, args ...any) {
		if differs {
			*found = append(*found, fmt.Sprintf(format, args...))
		}
	}
}

// invalidate makes the next run copy a file again whose contents turned out to be wrong although its attributes are
// right. It changes the file's time. The call may fail; that is why --checksum exists.
func (c *copier) invalidate(dirfd int, e *entry) { c.invalidateObject(named(dirfd, e.name), e) }

func (c *copier) invalidateObject(o object, e *entry) {
	if e.meta.isRegular() && c.checkOwned() == nil {
		stale := meta{mtimeSec: e.meta.mtimeSec - 1}
		_ = o.setTimes(stale.times())
	}
}
