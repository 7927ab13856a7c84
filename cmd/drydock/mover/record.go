//go:build linux

package mover

import (
	"crypto/sha256"
	"encoding/binary"
	"sort"

	"golang.org/x/sys/unix"
)

// recordName is the record's name in the target's root. No temporary file has this name, because theirs end in letters
// and digits only.
const recordName = tempPrefix + "pass.record"

// recordMagic includes the version of the format. A record of another version is ignored, like a torn record. That costs
// only time.
const recordMagic = "drydock-pass-3\n\x00"

// The record holds the files that a first pass verified. Each file has its contents hash, which is valid while the inodes
// on both sides look as they did then. Names do not matter for that, so the record has none. It also holds the directories
// of the source that had settled.
//
// The file consists of recordMagic, the fingerprint of recordID and the record's own inode, the number of entries (8
// bytes, big endian), the entries sorted by inode, and the SHA-256 of all that.

// recorded is one file or directory. The package comment states its size.
type recorded struct {
	ino     uint64   // of the source
	hint    uint64   // see hintOf, with the flags
	state   [16]byte // of both inodes, see stateOf; zero for a directory
	content sum      // see hashContents; zero for a directory
}

// Flags in the hint.
const (
	plainFlag = 1 << iota // a file without extended attributes that are carried, on both sides
	dirFlag               // a directory
	hintFlags = plainFlag | dirFlag
)

const (
	recordedSize   = 8 + 8 + 16 + sha256.Size
	recordHeadSize = int64(len(recordMagic)) + sha256.Size + 8
)

// known holds the entry of a record for a file that changed on neither side.
type known struct {
	content sum
	plain   bool // it has no extended attributes that are carried
}

// recordID identifies the passes that may use a record.
type recordID struct {
	token          string // the operation
	member         string // the process that writes to the source; "" if the caller does not distinguish them
	boot           string // the kernel's boot id: a crash may lose a change time but keep the written data
	mount          string // see Options: an error of the device may lose the same, until the file system is mounted again
	source, target uint64 // inodes of the roots
}

// fingerprint identifies this record in this inode. If the source contains a file that pretends to be a record, its copy
// has another inode. The file's author cannot know the birth time of that inode. A process that sees other extended
// attributes does not use the record.
func (id recordID) fingerprint(fd int) (sum, error) {
	var st unix.Statx_t
	err := ignoringEINTR(func() error {
		return unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_INO|unix.STATX_BTIME, &st)
	})
	if err != nil {
		return sum{}, err
	}
	trusted := int64(0)
	if seesTrusted() {
		trusted = 1
	}
	h := sha256.New()
	writeString(h, id.token)
	writeString(h, id.member)
	writeString(h, id.boot)
	writeString(h, id.mount)
	for _, n := range []uint64{id.source, id.target, st.Ino, uint64(st.Btime.Sec), uint64(st.Btime.Nsec)} {
		writeInt(h, int64(n))
	}
	writeInt(h, trusted)
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

// hintOf returns a hash of an inode of the source. Equal hashes do not prove that the inode is unchanged. They are a reason
// to expect it, and the verification compares the states.
func hintOf(m *meta) uint64 {
	h := uint64(14695981039346656037)
	for _, n := range [...]uint64{m.ino, uint64(m.size), uint64(m.mtimeSec), uint64(m.ctimeSec),
		uint64(m.mtimeNsec)<<32 | uint64(m.ctimeNsec), uint64(m.mode)<<32 | uint64(m.uid), uint64(m.gid)<<32 | uint64(m.nlink)} {
		h = (h ^ n) * 0x9e3779b97f4a7c15
		h ^= h >> 29
	}
	return h &^ hintFlags
}

func recordedFile(src, dst *meta, content sum, plain bool) recorded {
	r := recorded{src.ino, hintOf(src), stateOf(src, dst), content}
	if plain {
		r.hint |= plainFlag
	}
	return r
}

func recordedDir(src *meta) recorded { return recorded{ino: src.ino, hint: hintOf(src) | dirFlag} }

func (r *recorded) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, r.ino)
	b = binary.BigEndian.AppendUint64(b, r.hint)
	return append(append(b, r.state[:]...), r.content[:]...)
}

func (r *recorded) decode(b []byte) {
	r.ino, r.hint = binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])
	copy(r.state[:], b[16:32])
	copy(r.content[:], b[32:recordedSize])
}

// inodeSet is a set of inode numbers. Numbers that follow each other take one byte each.
type inodeSet struct {
	firsts  []uint64 // the first number of each group of setGroup numbers
	offsets []int    // where the differences of a group begin
	data    []byte   // differences to the previous number
	count   int
	last    uint64
}

const setGroup = 64

// add adds a number that is larger than all others.
func (s *inodeSet) add(ino uint64) {
	if s.count%setGroup == 0 {
		s.firsts, s.offsets = append(s.firsts, ino), append(s.offsets, len(s.data))
	} else {
		s.data = binary.AppendUvarint(s.data, ino-s.last)
	}
	s.count++
	s.last = ino
}

func (s *inodeSet) contains(ino uint64) bool {
	g := sort.Search(len(s.firsts), func(i int) bool { return s.firsts[i] > ino }) - 1
	if g < 0 {
		return false
	}
	at, data := s.firsts[g], s.data[s.offsets[g]:]
	for k := 1; at < ino && k < setGroup && len(data) > 0; k++ {
		d, n := binary.Uvarint(data)
		at, data = at+d, data[n:]
	}
	return at == ino
}
