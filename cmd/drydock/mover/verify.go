//go:build linux

package mover

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"
	"unsafe"

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
	src, dst    *root
	tree        *tree
	workers     int
	meter       *meter
	problems    *problems
	limit       *Limiter // may be nil
	effort      *effort
	trust       *trust
	keeper      *keeper // collects the hashes of the target's big files; nil if they are not kept
	patched     func(e *entry, have *meta) *patchedUnits
	isOwnName   func(d *dir, name string) bool
	invalidate  func(dirfd int, e *entry) // makes the next run copy a file of the target again
	lacksFlags  uint32                    // inode flags that are not compared
	sourceKnown bool                      // see copier.sourceIsSettled
	confirmed   func(path string)         // see hooks; may be nil
}

// verify reads both trees, compares them and collects the differences.
func (c *copier) verify(ctx context.Context) error {
	v := &verifier{
		src: c.src, dst: c.dst, tree: c.tree, workers: c.workers, meter: c.meter, problems: &c.problems, limit: c.limit,
		effort: &c.cost.check, trust: &c.trust, isOwnName: c.isOwnName, invalidate: c.invalidate,
		lacksFlags: c.ignoredFlags(), sourceKnown: c.sourceIsSettled(), confirmed: c.hooks.confirmed,
		patched: func(*entry, *meta) *patchedUnits { return nil },
	}
	if c.pass == PassFirst && c.trust.usable {
		v.keeper = &c.keeper
	}
	if c.pass == PassFinal {
		v.patched = c.completePatch
	}
	if err := runPool(ctx, c.workers, func(p *pool) { p.add(v.visit(p, c.tree.top)) }); err != nil {
		return err
	}
	if !v.isFirst() || c.rootIsUnchanged() {
		if err := c.problems.collect(c.verifyRoot()); err != nil {
			return err
		}
	}
	return c.problems.err()
}

// rootIsUnchanged reports whether the source's root looks as it was scanned.
func (c *copier) rootIsUnchanged() bool {
	st, err := fstat(c.src.fd)
	return err == nil && metaOf(&st) == c.tree.top.self.meta && !c.tree.top.unread.Load()
}

// completePatch returns the complete patch by units of a file, if nothing has changed the target since.
func (c *copier) completePatch(e *entry, have *meta) *patchedUnits {
	if !c.isBig(e) {
		return nil
	}
	if p := c.keeper.patchOf(e.meta.inode()); p != nil && p.done && p.targetAfter == *have {
		return p
	}
	return nil
}

// stampResolution is longer than the time between two stamps of the kernel, and coarseResolution than a second, which is the
// resolution of small inodes.
const (
	stampResolution  = 50 * time.Millisecond
	coarseResolution = 1100 * time.Millisecond
)

// sourceIsSettled reports whether nothing had changed in the source for a moment when a final pass began its scan. Then a
// recorded file needs no second look in the verification. Each recorded file was unchanged from its record to the scan, and
// every other file is checked again, so all files had the verified contents at the moment when the scan began.
func (c *copier) sourceIsSettled() bool {
	if c.pass != PassFinal || c.trust.earlier == nil {
		return false
	}
	newest := c.tree.newest
	resolution := stampResolution
	if newest.nsec == 0 {
		resolution = coarseResolution
	}
	return newest.before(unixTimeOf(c.scanBegan.Add(-resolution)))
}

// isFirst reports whether the source is in use.
func (v *verifier) isFirst() bool { return v.trust.pass == PassFirst }

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
		return v.collect(d, nil, &fault{source, "opening the directory", d.path(), err})
	}
	defer unix.Close(src)
	dst, err := v.dst.open(d)
	if err != nil {
		return v.collect(d, nil, &fault{target, "opening the directory", d.path(), ifGone(target, err)})
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

// isDifference reports whether a comparison failed because the target differs.
func isDifference(err error) bool {
	return kindOf(err) == kindDiffers || errors.Is(err, errNotKept)
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

// noteChange marks the directory of an entry whose copy failed because the source changed. Such a change shows in the stat of the entry,
// so the verification does not compare the entry. The exceptions have another error: a directory that was renamed for a while, a lease, or
// a stale handle of a network file system.
func (c *copier) noteChange(d *dir, err error) {
	if c.pass == PassFirst && err != nil && (kindOf(err) == kindChanged && !errors.Is(err, errChanged) || isStale(err)) {
		d.unread.Store(true)
	}
}

// ifGone turns the error into a mismatch if a name is missing in the target or has another type there. That is not an
// I/O error.
func ifGone(s side, err error) error {
	if s == target && isAny(err, unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.ENXIO) {
		return fmt.Errorf("%w: %w", errMismatch, err)
	}
	return err
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
			return &fault{side(k), "looking at", at.dir.path(), err}
		}
		both[k] = snapshot{meta: metaOf(&st), flags: v.flagsOf(k, fd)}
		if both[k].attrs, err = opened(fd).xattrs(nil); err != nil {
			return &fault{side(k), "reading extended attributes of", at.dir.path(), err}
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
		return &fault{target, "keeping the attributes of", path, fmt.Errorf("%w: %s", errNotKept, strings.Join(found, ", "))}
	}
	return differenceError(path, found)
}

// differenceError returns an error for an entry of the target with differences, or nil if there are none.
func differenceError(path string, differences []string) error {
	if len(differences) == 0 {
		return nil
	}
	return &fault{target, "comparing", path, mismatch(strings.Join(differences, ", "))}
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
		return &fault{target, "reading the directory", d.path(), err}
	}
	known, found := finder{dir: d}, 0
	for name := range names.all() {
		if known.find(name.name) != nil {
			found++
			continue
		}
		if v.isOwnName(d, name.name) {
			continue
		}
		if d.isLostFound(name.name) {
			if state, err := lostFoundIn(fd); err == nil && state != lostFoundOrdinary {
				continue
			}
		}
		if err := v.collect(d, nil, &fault{target, "comparing", d.join(name.name), mismatch("the source has no such entry")}); err != nil {
			return err
		}
	}
	if found == d.count() || v.isFirst() && !findsOtherNames(d, fd, names) {
		return nil
	}
	return v.collect(d, nil, &fault{target, "comparing", d.path(), mismatch(fmt.Sprintf(
		"it has only %d of the %d names of the source; it may ignore the case of names", found, d.count()))})
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

// statIn returns the attributes of an entry from a block, in an open directory.
func statIn(dirfd int, e *entry) (snapshot, error) {
	var x unix.Statx_t
	if err := statTerminated(dirfd, unsafe.StringData(e.terminated), &x); err != nil {
		return snapshot{}, err
	}
	st := fileStatOf(&x)
	return snapshot{meta: metaOf(&st.Stat_t), data: dataBytes(&st.Stat_t)}, nil
}

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
		v.invalidate(at.dst, e)
		found = append(found, "its contents differ")
	}
	if err := v.differenceError(at, e, found, sameContents); err != nil || !v.isFirst() || !v.trust.isRecordable(at.dir, e, g) {
		return err
	}
	if v.confirmed != nil {
		v.confirmed(at.dir.join(e.name))
	}
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
	patch := v.patched(e, &both[target].meta)
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

// dropPages drops the contents of an open file from memory.
func dropPages(fd int) error {
	return ignoringEINTR(func() error { return unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED) })
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
	if v.keeper != nil && e.meta.size >= bigFileMin {
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
func (p *prefetcher) advance(v *verifier, at pair, entries []entry, i int) {
	if i < p.next {
		return
	}
	p.next = i
	clear(p.fresh)
	bytes := int64(0)
	for files := 0; p.next < len(entries) && files < prefetchFiles && bytes < prefetchBytes; p.next++ {
		e := &entries[p.next]
		if !e.meta.isRegular() || e.meta.size == 0 || e.meta.size >= bigFileMin || e.meta.nlink != 1 || e.isKnown() ||
			!v.comparesContents(at.dir, e, nil) {
			continue
		}
		if prefetch(at.dst, e.name) == nil {
			if p.fresh == nil {
				p.fresh = map[string]bool{}
			}
			p.fresh[e.name] = true
		}
		files++
		bytes += e.meta.size
	}
}

func (p *prefetcher) isFresh(e *entry) bool { return p.fresh[e.name] }

func prefetch(dirfd int, name string) error {
	fd, err := openat(dirfd, name, unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := dropPages(fd); err != nil {
		return err
	}
	return ignoringEINTR(func() error { return unix.Fadvise(fd, 0, 0, unix.FADV_WILLNEED) })
}

// snapshot holds everything that a comparison uses of an entry, except contents.
type snapshot struct {
	meta  meta
	data  int64  // estimated bytes outside of holes
	flags uint32 // inode flags that both sides can have; 0 for entries that are not opened
	link  string
	attrs []xattr
}

// differences lists in phrases how an entry of the target differs from the source. The target of a first pass may have more names than the
// source: where a file changes during the pass, its name keeps the link of an earlier pass. Such a name is compared by itself.
func differences(src, dst *snapshot, g *group, firstPass bool) []string {
	found := attributeDifferences(&src.meta, &dst.meta)
	note := phraseCollector(&found)
	note(src.link != dst.link, "it has another link target")
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
