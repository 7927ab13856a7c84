//go:build linux

package units

import (
	"context"
	"crypto/sha256"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/fault"
	"drydock.dev/cmd/drydock/mover/fsys"
	"drydock.dev/cmd/drydock/mover/progress"
)

// MaxKept is the number of hashes that a process keeps: 32 MiB of memory, for 64 GiB of big files.
const MaxKept = 1 << 20

var zeroUnit [Size]byte

// ZeroSum returns the hash of a unit of zeros.
var ZeroSum = sync.OnceValue(func() Sum { return sha256.Sum256(zeroUnit[:]) })

// ZerosOf returns the hash of a number of zeros, at most a unit.
func ZerosOf(length int64) Sum {
	if length == Size {
		return ZeroSum()
	}
	return sha256.Sum256(zeroUnit[:length])
}

// KeptHashes are the hashes of one file of the target.
type KeptHashes struct {
	Meta fsys.Meta   // of the target's inode, before and after it was read from its device
	Sums []Sum       // of each unit
	Used atomic.Bool // a patch has begun with them
}

// Suffices reports whether a patch uses the hashes for a file that has this size now. A sparse file may grow to any size at once, and each
// unit takes memory.
func (k *KeptHashes) Suffices(size int64) bool { return size/2 <= k.Meta.Size }

// HoldsFor reports whether a unit of a file of the size is a whole unit of the hashed file.
func (k *KeptHashes) HoldsFor(i int, size int64) bool {
	return i < len(k.Sums) && Length(size, i) == Length(k.Meta.Size, i)
}

// Keeper holds the hashes of a pass. Its keys are inodes of the source.
type Keeper struct {
	mu      sync.Mutex
	Files   map[fsys.Inode]*KeptHashes
	count   int
	Patched map[fsys.Inode]*Patch // files that this pass has updated with the hashes of an earlier one
}

// Reserve returns hashes for a file, or nil if there is no memory for them. All units are zeros.
func (k *Keeper) Reserve(size int64) []Sum {
	n := Count(size)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.count+n > MaxKept {
		return nil
	}
	k.count += n
	sums := make([]Sum, n)
	for i := range sums {
		sums[i] = ZerosOf(Length(size, i))
	}
	return sums
}

func (k *Keeper) Store(of fsys.Inode, have fsys.Meta, sums []Sum) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.Files == nil {
		k.Files = map[fsys.Inode]*KeptHashes{}
	}
	k.Files[of] = &KeptHashes{Meta: have, Sums: sums}
}

func (k *Keeper) Drop(sums []Sum) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.count -= len(sums)
}

func (k *Keeper) Has(of fsys.Inode) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.Files[of] != nil
}

func (k *Keeper) PatchOf(of fsys.Inode) *Patch {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.Patched[of]
}

func (k *Keeper) AddPatch(of fsys.Inode, p *Patch) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.Patched == nil {
		k.Patched = map[fsys.Inode]*Patch{}
	}
	k.Patched[of] = p
}

// Patch holds the changes that a pass has made to a big file of the target with its kept hashes.
type Patch struct {
	Kept *KeptHashes
	Size int64 // of the source

	Written     []atomic.Bool // units that were written, or whose layout changed
	Want        []Sum         // of the source's units; zero if the patch has not come to a unit
	TargetAfter fsys.Meta     // of the target's inode after the patch; zero if it is unknown
	Done        bool          // the target has the contents of the source
}

// Mark notes that a range was written.
func (u *Patch) Mark(from, to int64) {
	for i := int(from / Size); u != nil && i < Count(to); i++ {
		u.Written[i].Store(true)
	}
}

// NoteHole notes that the units of a range are in a hole of both sides. A unit with another kept hash is verified. Of a unit without a kept
// hash, the target was written only if it had data, and that is marked.
func (u *Patch) NoteHole(from, to int64) {
	if u == nil {
		return
	}
	for i, end := WholeUnits(from, to, u.Size); i < end; i++ {
		u.Want[i] = ZerosOf(Length(u.Size, i))
		if u.Kept.HoldsFor(i, u.Size) && u.Kept.Sums[i] != u.Want[i] {
			u.Written[i].Store(true)
		}
	}
}

// Verify reports whether the written units of the target equal the source's. It reads them from the device. All other units were
// read from the device by an earlier pass, and equal the source.
func (p *Patch) Verify(ctx context.Context, fd int) (bool, error) {
	err := p.eachWritten(ctx, fd, p.Size, func(i int, have Sum) error {
		if have != p.Want[i] {
			return fault.ErrMismatch
		}
		return nil
	})
	switch {
	case err == fault.ErrMismatch:
		return false, nil
	case err != nil && ctx.Err() == nil:
		err = &SideError{fault.Target, err}
	}
	return err == nil, err
}

// Rehash sets the hashes of the target after the flush. Units that were not written keep theirs.
func (p *Patch) Rehash(ctx context.Context, limit *progress.Limiter, fd int, size int64, sums []Sum) error {
	for i := range sums {
		switch {
		case p.Kept.HoldsFor(i, size):
			sums[i] = p.Kept.Sums[i]
		case i >= len(p.Written):
			return fault.ErrChanged
		case p.Want[i] != ZerosOf(Length(size, i)): // zeros that were not written are in a hole, see NoteHole
			p.Written[i].Store(true)
		}
	}
	return p.eachWritten(ctx, fd, size, func(i int, have Sum) error {
		limit.Wait(ctx, Size)
		sums[i] = have
		return nil
	})
}

func (p *Patch) eachWritten(ctx context.Context, fd int, size int64, f func(i int, have Sum) error) error {
	whole := fsys.Buffers.Get()
	defer fsys.Buffers.Put(whole)
	if err := fsys.DropPages(fd); err != nil {
		return err
	}
	ahead := 0
	for i := range p.Written {
		if int64(i)*Size >= size {
			break
		}
		for ; ahead < len(p.Written) && ahead < i+fsys.ReadAheadSize/Size; ahead++ {
			if p.Written[ahead].Load() {
				_ = unix.Fadvise(fd, int64(ahead)*Size, Size, unix.FADV_WILLNEED)
			}
		}
		if !p.Written[i].Load() {
			continue
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
		have := whole[:Length(size, i)]
		if err := fsys.ReadFull(fd, have, int64(i)*Size); err != nil {
			return err
		}
		if err := f(i, sha256.Sum256(have)); err != nil {
			return err
		}
	}
	return nil
}
