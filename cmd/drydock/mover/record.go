//go:build linux

package mover

import (
	"crypto/sha256"
	"encoding/binary"
	"sort"
	"sync"

	"golang.org/x/sys/unix"
)

// recordName is the record's name in the target's root. No temporary file has this name, because theirs end in letters
// and digits only.
const recordName = tempPrefix + "pass.record"

// recordMagic includes the version of the format. A record of another version is ignored, like a torn record. That costs
// only time.
const recordMagic = "drydock-pass-1\n\x00"

// record holds the files that a first pass verified. Each file has its contents hash, which is valid while the inodes on
// both sides look as they did then. Names do not matter for that, so the record has none.
//
// The file consists of recordMagic, the fingerprint of recordID and the record's own inode, the number of entries (8
// bytes, big endian), the entries sorted by inode, and the SHA-256 of all that.
type record struct {
	mu      sync.Mutex // guards the fields while entries are added
	entries []recorded
	bytes   int64 // data bytes of the files
}

// recorded is one file. The package comment states its size.
type recorded struct {
	ino     uint64   // of the source
	state   [16]byte // of both inodes, see stateOf
	content sum      // see hashContents
}

const (
	recordedSize   = 8 + 16 + sha256.Size
	recordHeadSize = int64(len(recordMagic)) + sha256.Size + 8
)

// recordID identifies the passes that may use a record.
type recordID struct {
	token          string // the operation
	member         string // the process that writes to the source; "" if the caller does not distinguish them
	boot           string // the kernel's boot id: a crash may lose a change time but keep the written data
	source, target uint64 // inodes of the roots
}

// fingerprint identifies this record in this inode. If the source contains a file that pretends to be a record, its copy
// has another inode. The file's author cannot know the birth time of that inode.
func (id recordID) fingerprint(fd int) (sum, error) {
	var st unix.Statx_t
	err := ignoringEINTR(func() error {
		return unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_INO|unix.STATX_BTIME, &st)
	})
	if err != nil {
		return sum{}, err
	}
	h := sha256.New()
	writeString(h, id.token)
	writeString(h, id.member)
	writeString(h, id.boot)
	for _, n := range []uint64{id.source, id.target, st.Ino, uint64(st.Btime.Sec), uint64(st.Btime.Nsec)} {
		writeInt(h, int64(n))
	}
	return sum(h.Sum(nil)), nil
}

// stateOf returns a fingerprint of all that is known about two inodes. Equal fingerprints mean equal values.
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
	return state
}

func (r *record) add(src, dst *meta, content sum, data int64) {
	e := recorded{src.ino, stateOf(src, dst), content}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entries = append(r.entries, e)
	r.bytes += data
}

// find returns the contents of a file if both inodes look as they did when it was verified.
func (r *record) find(src, dst *meta) (sum, bool) {
	i := sort.Search(len(r.entries), func(i int) bool { return r.entries[i].ino >= src.ino })
	if i == len(r.entries) || r.entries[i].ino != src.ino || r.entries[i].state != stateOf(src, dst) {
		return sum{}, false
	}
	return r.entries[i].content, true
}
