//go:build linux

package mover

import (
	"context"
	"crypto/sha256"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// maxKept is the number of hashes that a process keeps: 32 MiB of memory, for 64 GiB of big files.
const maxKept = 1 << 20

var zeroUnit [unitSize]byte

// zeroSum returns the hash of a unit of zeros.
var zeroSum = sync.OnceValue(func() sum { return sha256.Sum256(zeroUnit[:]) })

// zerosOf returns the hash of a number of zeros, at most a unit.
func zerosOf(length int64) sum {
	if length == unitSize {
		return zeroSum()
	}
	return sha256.Sum256(zeroUnit[:length])
}

// keptHashes are the hashes of one file of the target.
type keptHashes struct {
	meta meta        // of the target's inode, before and after it was read from its device
	sums []sum       // of each unit
	used atomic.Bool // a patch has begun with them
}

// suffices reports whether a patch uses the hashes for a file that has this size now. A sparse file may grow to any size at once, and each
// unit takes memory.
func (k *keptHashes) suffices(size int64) bool { return size/2 <= k.meta.size }

// holdsFor reports whether a unit of a file of the size is a whole unit of the hashed file.
func (k *keptHashes) holdsFor(i int, size int64) bool {
	return i < len(k.sums) && unitLength(size, i) == unitLength(k.meta.size, i)
}

// keeper holds the hashes of a pass. Its keys are inodes of the source.
type keeper struct {
	mu      sync.Mutex
	files   map[inode]*keptHashes
	count   int
	patched map[inode]*patchedUnits // files that this pass has updated with the hashes of an earlier one
}

// reserve returns hashes for a file, or nil if there is no memory for them. All units are zeros.
func (k *keeper) reserve(size int64) []sum {
	n := units(size)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.count+n > maxKept {
		return nil
	}
	k.count += n
	sums := make([]sum, n)
	for i := range sums {
		sums[i] = zerosOf(unitLength(size, i))
	}
	return sums
}

func (k *keeper) store(of inode, have meta, sums []sum) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.files == nil {
		k.files = map[inode]*keptHashes{}
	}
	k.files[of] = &keptHashes{meta: have, sums: sums}
}

func (k *keeper) drop(sums []sum) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.count -= len(sums)
}

func (k *keeper) has(of inode) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.files[of] != nil
}

func (k *keeper) patchOf(of inode) *patchedUnits {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.patched[of]
}

func (k *keeper) addPatch(of inode, p *patchedUnits) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.patched == nil {
		k.patched = map[inode]*patchedUnits{}
	}
	k.patched[of] = p
}

// A first pass hashes the big files of the target and keeps the hashes in memory. The next pass of the same process compares them
// with the source, and reads only those units of the target that differ.
//
// The contents are read from the target's device after a flush. The hashes describe the target only, so they are valid even if the
// source changed meanwhile or the copy was wrong. They are valid until the target's inode changes, see trustedFileSystems. A patch
// uses them once. A cancelled patch may write without a visible change of the inode, because small inodes store whole seconds only.

// keptFor returns the kept hashes of an open file of the target, or nil if its inode has changed or a patch has used them.
func (c *copier) keptFor(e *entry, out int) *keptHashes {
	if c.last == nil || !c.trust.usable || c.trust.isInSubvolume(&e.meta) {
		return nil
	}
	k := c.last.kept[e.meta.inode()]
	if k == nil || k.used.Swap(true) {
		return nil
	}
	st, err := fstat(out)
	if err != nil || metaOf(&st) != k.meta {
		return nil
	}
	return k
}

// keepHashes hashes the big files of the target that the next pass must compare and that this pass has not hashed. It ignores errors:
// the next pass then reads the file on both sides.
func (c *copier) keepHashes(ctx context.Context, k *firstPassState) {
	if !c.trust.usable || !c.tree.hasBig {
		return
	}
	for _, d := range c.tree.dirs {
		for e := range d.all() {
			if e.meta.isRegular() && c.isBig(e) && !c.keeper.has(e.meta.inode()) && !c.trust.isInSubvolume(&e.meta) && ctx.Err() == nil {
				c.keepFile(ctx, k, d, e)
			}
		}
	}
	k.kept = c.keeper.files
}

func (c *copier) keepFile(ctx context.Context, k *firstPassState, d *dir, e *entry) {
	fd, err := c.dst.open(d)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	file, err := openat(fd, e.name, unix.O_RDONLY, 0)
	if err != nil {
		return
	}
	defer unix.Close(file)
	st, err := fstat(file)
	have := metaOf(&st)
	if err != nil || !have.isRegular() || have.size < bigFileMin || dropPages(file) != nil {
		return
	}
	old := (*keptHashes)(nil)
	if c.last != nil {
		old = c.last.kept[e.meta.inode()]
	}
	sums := c.keeper.reserve(have.size)
	if sums == nil {
		return
	}
	p := c.keeper.patchOf(e.meta.inode())
	switch {
	case p != nil && p.targetAfter == have: // unchanged since the patch
		err = p.rehash(ctx, c.limit, file, have.size, sums)
	case old != nil && old.meta == have && !old.used.Load():
		copy(sums, old.sums)
	case k.isRecorded(&e.meta):
		err = errChanged // this process has not read it, and the next pass does not read it
	default:
		err = hashFileUnits(ctx, file, have.size, dataBytes(&st), c.limit, func(i int64, u sum) { sums[i] = u })
	}
	now, serr := fstat(file)
	if err != nil || serr != nil || metaOf(&now) != have {
		c.keeper.drop(sums)
		return
	}
	c.keeper.store(e.meta.inode(), have, sums)
}

// maxCopiedSums is the number of hashes of copied files that a pass keeps: 32 MiB of memory.
const maxCopiedSums = 1 << 20

// reserveCopiedSums makes room for the hashes of the files that a first pass without an earlier record copies. keepCopied fills in
// the hash of a file without holes that has one name and fits in one buffer. The verification then reads only the target. So
// such files of the source, which is in use, are read once.
//
// This proves as much as a second read of the source: only settled files are recorded, and a later write changes their
// inode, see trust.begin. Where change times are not trusted, nothing is recorded, and the hashes are all that a first pass compares.
func (c *copier) reserveCopiedSums() {
	if c.pass != PassFirst || c.trust.earlier != nil { // with an earlier record, few files are copied
		return
	}
	left := maxCopiedSums
	for _, d := range c.tree.dirs {
		if d.excluded {
			continue
		}
		for i := range d.blocks {
			if left -= d.blocks[i].count; left < 0 {
				return
			}
			d.blocks[i].copied = make([]sum, d.blocks[i].count)
		}
	}
}

// keepCopied keeps the hash of contents that were read to copy them, if they are the whole file.
func (c *copier) keepCopied(e *entry, contents []byte) {
	if e.copied != nil && e.meta.nlink == 1 && int64(len(contents)) == e.meta.size && (c.trust.current == nil || c.trust.isSettled(e)) {
		*e.copied = sha256.Sum256(contents)
	}
}

// copiedSum returns the hash of the contents that this pass has copied, if it is known. It is the hash of the file while its inode
// does not change. Files with extended attributes or inode flags have none.
func (e *entry) copiedSum() (s sum, known bool) {
	if e.copied == nil || *e.copied == (sum{}) {
		return sum{}, false
	}
	return *e.copied, true
}
