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

// patchedUnits holds the changes that a pass has made to a big file of the target with its kept hashes.
type patchedUnits struct {
	kept *keptHashes
	size int64 // of the source

	written     []atomic.Bool // units that were written, or whose layout changed
	want        []sum         // of the source's units; zero if the patch has not come to a unit
	targetAfter meta          // of the target's inode after the patch; zero if it is unknown
	done        bool          // the target has the contents of the source
}

// mark notes that a range was written.
func (u *patchedUnits) mark(from, to int64) {
	for i := int(from / unitSize); u != nil && i < units(to); i++ {
		u.written[i].Store(true)
	}
}

// noteHole notes that the units of a range are in a hole of both sides. A unit with another kept hash is verified. Of a unit without a kept
// hash, the target was written only if it had data, and that is marked.
func (u *patchedUnits) noteHole(from, to int64) {
	if u == nil {
		return
	}
	for i, end := wholeUnits(from, to, u.size); i < end; i++ {
		u.want[i] = zerosOf(unitLength(u.size, i))
		if u.kept.holdsFor(i, u.size) && u.kept.sums[i] != u.want[i] {
			u.written[i].Store(true)
		}
	}
}

// verify reports whether the written units of the target equal the source's. It reads them from the device. All other units were
// read from the device by an earlier pass, and equal the source.
func (p *patchedUnits) verify(ctx context.Context, fd int) (bool, error) {
	err := p.eachWritten(ctx, fd, p.size, func(i int, have sum) error {
		if have != p.want[i] {
			return errMismatch
		}
		return nil
	})
	switch {
	case err == errMismatch:
		return false, nil
	case err != nil && ctx.Err() == nil:
		err = &sideError{target, err}
	}
	return err == nil, err
}

// rehash sets the hashes of the target after the flush. Units that were not written keep theirs.
func (p *patchedUnits) rehash(ctx context.Context, limit *Limiter, fd int, size int64, sums []sum) error {
	for i := range sums {
		switch {
		case p.kept.holdsFor(i, size):
			sums[i] = p.kept.sums[i]
		case i >= len(p.written):
			return errChanged
		case p.want[i] != zerosOf(unitLength(size, i)): // zeros that were not written are in a hole, see noteHole
			p.written[i].Store(true)
		}
	}
	return p.eachWritten(ctx, fd, size, func(i int, have sum) error {
		limit.wait(ctx, unitSize)
		sums[i] = have
		return nil
	})
}

func (p *patchedUnits) eachWritten(ctx context.Context, fd int, size int64, f func(i int, have sum) error) error {
	whole := buffers.Get()
	defer buffers.Put(whole)
	if err := dropPages(fd); err != nil {
		return err
	}
	ahead := 0
	for i := range p.written {
		if int64(i)*unitSize >= size {
			break
		}
		for ; ahead < len(p.written) && ahead < i+readAheadSize/unitSize; ahead++ {
			if p.written[ahead].Load() {
				_ = unix.Fadvise(fd, int64(ahead)*unitSize, unitSize, unix.FADV_WILLNEED)
			}
		}
		if !p.written[i].Load() {
			continue
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
		have := whole[:unitLength(size, i)]
		if err := readFull(fd, have, int64(i)*unitSize); err != nil {
			return err
		}
		if err := f(i, sha256.Sum256(have)); err != nil {
			return err
		}
	}
	return nil
}
