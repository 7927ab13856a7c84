//go:build linux

package mover

import (
	"crypto/sha256"
	"sync"
	"sync/atomic"
)

// maxKept is the number of hashes that a process keeps: 32 MiB of memory, for 64 GiB of big files.
const maxKept = 1 << 20

// zeroSum returns the hash of a unit of zeros.
var zeroSum = sync.OnceValue(func() sum { return sha256.Sum256(zeroUnit[:]) })

// zerosOf returns the hash of a number of zeros, at most a unit.
func zerosOf(length int64) sum {
	if length == unitSize {
		return zeroSum()
	}
	return sha256.Sum256(zeroUnit[:length])
}

// hashOfUnits returns what hashContents returns for a file of the size whose units have these hashes.
func hashOfUnits(size int64, sums []sum) sum {
	h := sha256.New()
	writeInt(h, size)
	for i := range sums {
		if sums[i] != zerosOf(unitLength(size, i)) {
			writeInt(h, int64(i))
			h.Write(sums[i][:])
		}
	}
	return sum(h.Sum(nil))
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

// patchedUnits holds the changes that a pass has made to a big file of the target with its kept hashes.
type patchedUnits struct {
	kept *keptHashes
	size int64 // of the source

	written     []atomic.Bool // units that were written, or whose layout changed
	want        []sum         // of the source's units, as they were read
	content     sum           // of the source, see hashContents; only of a complete patch
	targetAfter meta          // of the target's inode after the patch; zero if it is unknown
	done        bool          // the target has the contents of the source
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

// forget drops everything before a pass is repeated.
func (k *keeper) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.files, k.patched, k.count = nil, nil, 0
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
