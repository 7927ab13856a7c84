//go:build linux

// Package record decides which files need not be read, because an earlier pass verified them.
package record

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"sort"
	"sync"
	"time"

	"drydock.dev/cmd/drydock/mover/fsys"
	"drydock.dev/cmd/drydock/mover/units"
)

// Record holds the files that first passes verified: the contents of both sides were equal while their inodes looked as recorded. Names do
// not matter for that, so the record has none. It stays in the memory of a process that makes several passes. A file carries it to the next
// process.
type Record struct {
	id    recordID
	clock time.Duration // clockOffset of the pass: after a step of the clock, a new change may have an old time
	Files []recorded    // sorted by inode
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
	Token          string // the operation
	Member         string // the process that writes to the source; "" if the caller does not distinguish them
	boot           string // the kernel's boot id: a crash may lose a change time but keep the written data
	Mount          string // see Options: an error of the device may lose the same, until the file system is mounted again
	source, target uint64 // inodes of the roots
	trusted        bool   // see SeesTrusted: a process that sees other extended attributes does not use the record
}

// fingerprint returns a hash of the identification.
func (id recordID) fingerprint() units.Sum {
	return sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q %d %d %t", id.Token, id.Member, id.boot, id.Mount, id.source, id.target, id.trusted))
}

// stateOf returns a fingerprint of all that is known about two inodes. Equal fingerprints mean equal values. The bit of plainFlag is 0.
func stateOf(src, dst *fsys.Meta) (state [16]byte) {
	b := make([]byte, 0, 160)
	for _, m := range []*fsys.Meta{src, dst} {
		for _, n := range []uint64{m.Ino, uint64(m.Size), uint64(m.MtimeSec), uint64(m.CtimeSec)} {
			b = binary.BigEndian.AppendUint64(b, n)
		}
		for _, n := range []uint32{m.MtimeNsec, m.CtimeNsec, m.Mode, m.Uid, m.Gid, m.Nlink} {
			b = binary.BigEndian.AppendUint32(b, n)
		}
	}
	all := sha256.Sum256(b)
	copy(state[:], all[:])
	state[15] &^= plainFlag
	return state
}

// Search returns the place of an inode, or -1. It is fastest for the inode that is recorded at the place next: files that were created one
// after the other have ascending inodes.
func (r *Record) Search(ino uint64, next int) int {
	if r == nil {
		return -1
	}
	if next < len(r.Files) && r.Files[next].ino == ino {
		return next
	}
	i := sort.Search(len(r.Files), func(i int) bool { return r.Files[i].ino >= ino })
	if i == len(r.Files) || r.Files[i].ino != ino {
		return -1
	}
	return i
}

// find reports whether a file is recorded and both inodes look as they did then, and whether it had no extended attributes.
func (r *Record) find(src, dst *fsys.Meta) (plain, ok bool) {
	i := r.Search(src.Ino, 0)
	if i < 0 {
		return false, false
	}
	return r.Files[i].Holds(src, dst)
}

func (f *recorded) Holds(src, dst *fsys.Meta) (plain, ok bool) {
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
	Files []recorded
	Bytes int64 // data bytes of the files
}

// Reserve makes room for a number of files. The kernel provides the memory only for those that are added.
func (r *recorder) Reserve(files int64) { r.Files = make([]recorded, 0, files) }

// Add adds a file with data bytes of data.
func (r *recorder) Add(src, dst *fsys.Meta, plain bool, data int64) {
	f := recorded{src.Ino, stateOf(src, dst)}
	if plain {
		f.state[15] |= plainFlag
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Files = append(r.Files, f)
	r.Bytes += data
}

// A file of a record has RecordMagic, the fingerprint, the clock, the number of files, the files, and the CRC-32C of all that. Integers are
// big endian. The magic includes the version of the format. A record of another version is ignored, like a torn one: that costs only time.
const (
	RecordMagic    = "drydock-pass-5\n\x00"
	RecordHeadSize = len(RecordMagic) + sha256.Size + 8 + 8
	RecordedSize   = 8 + 16
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Save writes the record to a file, which has its name only when it is complete. It calls written, if not nil, before it gives the file its
// name. It needs no flush: after a crash of the node, the boot id is another one.
func (r *Record) Save(path string, written func()) error {
	tmp := path + ".new"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	err = r.encode(f)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil && written != nil {
		written()
	}
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		_ = os.Remove(tmp)
	}
	return err
}

func (r *Record) encode(w io.Writer) error {
	out, sealed := bufio.NewWriterSize(w, fsys.BufferSize), crc32.New(castagnoli)
	both := io.MultiWriter(out, sealed)
	mark := r.id.fingerprint()
	b := append([]byte(RecordMagic), mark[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(r.clock))
	b = binary.BigEndian.AppendUint64(b, uint64(len(r.Files)))
	for i := range r.Files {
		if len(b) > 32<<10 {
			_, _ = both.Write(b) // Flush returns the error
			b = b[:0]
		}
		b = append(binary.BigEndian.AppendUint64(b, r.Files[i].ino), r.Files[i].state[:]...)
	}
	_, _ = both.Write(b)
	_, _ = out.Write(binary.BigEndian.AppendUint32(nil, sealed.Sum32()))
	return out.Flush()
}

var (
	errNoRecord      = errors.New("there is none")
	errForeignRecord = errors.New("it belongs to another operation, mover, version or boot of the node")
	errTornRecord    = errors.New("it is incomplete")
	errOtherClock    = errors.New("the clock of this node was set in between")
)

// loadRecord returns the record in a file. It fails if it cannot be trusted.
func loadRecord(path string, id recordID) (*Record, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return decodeRecord(bufio.NewReaderSize(f, fsys.BufferSize), st.Size(), id)
}

// decodeRecord allocates no memory for files before it has recognized the head.
func decodeRecord(r io.Reader, size int64, id recordID) (*Record, error) {
	sealed := crc32.New(castagnoli)
	in := io.TeeReader(r, sealed)
	var head [RecordHeadSize]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return nil, errTornRecord
	}
	mark := id.fingerprint()
	if !bytes.Equal(head[:RecordHeadSize-16], append([]byte(RecordMagic), mark[:]...)) {
		return nil, errForeignRecord
	}
	body := size - int64(RecordHeadSize) - crc32.Size
	count := body / RecordedSize
	if body < 0 || body%RecordedSize != 0 || binary.BigEndian.Uint64(head[RecordHeadSize-8:]) != uint64(count) {
		return nil, errTornRecord
	}
	clock := time.Duration(binary.BigEndian.Uint64(head[RecordHeadSize-16:]))
	back := &Record{id, clock, make([]recorded, count)}
	var b [RecordedSize]byte
	for i := range back.Files {
		if _, err := io.ReadFull(in, b[:]); err != nil {
			return nil, errTornRecord
		}
		back.Files[i] = recorded{binary.BigEndian.Uint64(b[:]), [16]byte(b[8:])}
	}
	want := sealed.Sum32()
	if _, err := io.ReadFull(r, b[:crc32.Size]); err != nil || binary.BigEndian.Uint32(b[:]) != want {
		return nil, errTornRecord
	}
	return back, nil
}
