//go:build linux

package mover

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"sort"
	"sync"
)

// record holds the files that first passes verified: the contents of both sides were equal while their inodes looked as recorded. Names do
// not matter for that, so the record has none. It stays in the memory of a process that makes several passes. A file carries it to the next
// process.
type record struct {
	id    recordID
	files []recorded // sorted by inode
}

// recorded is one file. The package comment states its size.
type recorded struct {
	ino   uint64   // of the source
	state [16]byte // of both inodes, see stateOf
}

// plainFlag is the bit of a recorded state that says that neither side has extended attributes that are carried.
const plainFlag = 1

// recordID identifies the passes that may use a record.
type recordID struct {
	token          string // the operation
	member         string // the process that writes to the source; "" if the caller does not distinguish them
	boot           string // the kernel's boot id: a crash may lose a change time but keep the written data
	mount          string // see Options: an error of the device may lose the same, until the file system is mounted again
	source, target uint64 // inodes of the roots
	trusted        bool   // see seesTrusted: a process that sees other extended attributes does not use the record
}

// fingerprint returns a hash of the identification.
func (id recordID) fingerprint() sum {
	return sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q %d %d %t", id.token, id.member, id.boot, id.mount, id.source, id.target, id.trusted))
}

// stateOf returns a fingerprint of all that is known about two inodes. Equal fingerprints mean equal values. The bit of plainFlag is 0.
func stateOf(src, dst *meta) (state [16]byte) {
	b := make([]byte, 0, 160)
	for _, m := range []*meta{src, dst} {
		for _, n := range []uint64{m.ino, uint64(m.size), uint64(m.mtimeSec), uint64(m.ctimeSec)} {
			b = binary.BigEndian.AppendUint64(b, n)
		}
		for _, n := range []uint32{m.mtimeNsec, m.ctimeNsec, m.mode, m.uid, m.gid, m.nlink} {
			b = binary.BigEndian.AppendUint32(b, n)
		}
	}
	all := sha256.Sum256(b)
	copy(state[:], all[:])
	state[15] &^= plainFlag
	return state
}

// search returns the place of an inode, or -1. It is fastest for the inode that is recorded at the place next: files that were created one
// after the other have ascending inodes.
func (r *record) search(ino uint64, next int) int {
	if r == nil {
		return -1
	}
	if next < len(r.files) && r.files[next].ino == ino {
		return next
	}
	i := sort.Search(len(r.files), func(i int) bool { return r.files[i].ino >= ino })
	if i == len(r.files) || r.files[i].ino != ino {
		return -1
	}
	return i
}

// find reports whether a file is recorded and both inodes look as they did then, and whether it had no extended attributes.
func (r *record) find(src, dst *meta) (plain, ok bool) {
	i := r.search(src.ino, 0)
	if i < 0 {
		return false, false
	}
	return r.files[i].holds(src, dst)
}

func (f *recorded) holds(src, dst *meta) (plain, ok bool) {
	want := stateOf(src, dst)
	plain = f.state[15]&plainFlag != 0
	if plain {
		want[15] |= plainFlag
	}
	return plain, f.state == want
}

// recorder collects the files that a first pass verifies. It may be used concurrently.
type recorder struct {
	mu    sync.Mutex
	files []recorded
	bytes int64 // data bytes of the files
}

// reserve makes room for a number of files. The kernel provides the memory only for those that are added.
func (r *recorder) reserve(files int64) { r.files = make([]recorded, 0, files) }

// add adds a file with data bytes of data.
func (r *recorder) add(src, dst *meta, plain bool, data int64) {
	f := recorded{src.ino, stateOf(src, dst)}
	if plain {
		f.state[15] |= plainFlag
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.files = append(r.files, f)
	r.bytes += data
}

// record returns the files as a record. Nothing is added after that.
func (r *recorder) record(id recordID) *record {
	slices.SortFunc(r.files, func(a, b recorded) int { return cmp.Compare(a.ino, b.ino) })
	return &record{id, r.files}
}
