//go:build linux

package mover

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"os"
	"sort"

	"golang.org/x/sys/unix"
)

var (
	errNoRecord      = errors.New("there is no record")
	errForeignRecord = errors.New("it belongs to another operation, mover, version or boot of the node")
	errTornRecord    = errors.New("it is incomplete")
)

// pageEntries is the number of entries that are read from a record at once.
const pageEntries = 64

// record is an open record file that was read once and is complete. Its entries stay in the file. In memory it has 16 bytes
// for each page: its first inode, and a hash, so that a page counts only if it has not changed since the record was checked.
type record struct {
	file   *os.File
	count  int
	firsts []uint64
	hashes []uint64
	seed   maphash.Seed
	pages  bufferPool[page]

	noPages bool // see hooks
}

// page is a part of a record in memory.
type page struct {
	of    *record // nil before it is read
	index int
	next  int // the entry after the last result
	data  [pageEntries * recordedSize]byte
}

// readRecord returns the record in the directory. It fails if there is none that can be trusted. The caller closes it.
func readRecord(dirfd int, id recordID) (*record, error) {
	fd, err := openat(dirfd, recordName, unix.O_RDONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", errNoRecord, err)
	}
	r := &record{file: os.NewFile(uintptr(fd), recordName), seed: maphash.MakeSeed()}
	if err := r.check(fd, id); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func (r *record) close() {
	if r != nil {
		_ = r.file.Close() // read only
	}
}

func (r *record) check(fd int, id recordID) error {
	st, err := fstat(fd)
	if err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink != 1 {
		return errForeignRecord
	}
	bound, err := id.fingerprint(fd)
	if err != nil {
		return err
	}
	return r.read(st.Size, bound)
}

// read reads the whole file once. It allocates no memory for entries before it has recognized the head.
func (r *record) read(size int64, bound sum) error {
	h := sha256.New()
	buffered := bufio.NewReaderSize(r.file, bufferSize)
	in := io.TeeReader(buffered, h)
	head := make([]byte, recordHeadSize)
	if _, err := io.ReadFull(in, head); err != nil {
		return errTornRecord
	}
	if !bytes.HasPrefix(head, []byte(recordMagic)) || !bytes.Equal(head[len(recordMagic):][:sha256.Size], bound[:]) {
		return errForeignRecord
	}
	body := size - recordHeadSize - sha256.Size
	count := body / recordedSize
	if body < 0 || body%recordedSize != 0 || binary.BigEndian.Uint64(head[recordHeadSize-8:]) != uint64(count) {
		return errTornRecord
	}
	r.count = int(count)
	pages := (r.count + pageEntries - 1) / pageEntries
	r.firsts, r.hashes = make([]uint64, pages), make([]uint64, pages)
	var p page
	for i := range pages {
		data := p.data[:r.pageSize(i)]
		if _, err := io.ReadFull(in, data); err != nil {
			return errTornRecord
		}
		r.firsts[i], r.hashes[i] = binary.BigEndian.Uint64(data), maphash.Bytes(r.seed, data)
	}
	var sealed sum
	if _, err := io.ReadFull(buffered, sealed[:]); err != nil || sealed != sum(h.Sum(nil)) {
		return errTornRecord
	}
	return nil
}

// pageSize returns the number of bytes in a page.
func (r *record) pageSize(i int) int { return min(pageEntries, r.count-i*pageEntries) * recordedSize }

// lookup returns the entry of an inode of the source. It is fastest if inodes come in their order, as in a directory whose files were
// created one after the other.
func (r *record) lookup(ino uint64) (e recorded, ok bool) {
	p := r.pages.Get()
	defer r.pages.Put(p)
	if p.of != r || !p.holds(ino) || r.noPages {
		i := sort.Search(len(r.firsts), func(i int) bool { return r.firsts[i] > ino }) - 1
		if i < 0 || !r.readPage(p, i) {
			return e, false
		}
	}
	k, n := p.next, r.pageSize(p.index)/recordedSize
	if k >= n || p.ino(k) != ino {
		k = sort.Search(n, func(k int) bool { return p.ino(k) >= ino })
	}
	if k == n || p.ino(k) != ino {
		return e, false
	}
	p.next = k + 1
	e.decode(p.data[k*recordedSize:])
	return e, true
}

// readPage reads a page, and returns false if it has changed since the record was checked.
func (r *record) readPage(p *page, i int) bool {
	p.of = nil
	data := p.data[:r.pageSize(i)]
	if _, err := r.file.ReadAt(data, recordHeadSize+int64(i)*int64(len(p.data))); err != nil || maphash.Bytes(r.seed, data) != r.hashes[i] {
		return false
	}
	p.of, p.index, p.next = r, i, 0
	return true
}

// holds reports whether an inode can only be in this page.
func (p *page) holds(ino uint64) bool {
	firsts := p.of.firsts[p.index:]
	return firsts[0] <= ino && (len(firsts) == 1 || ino < firsts[1])
}

func (p *page) ino(k int) uint64 { return binary.BigEndian.Uint64(p.data[k*recordedSize:]) }

// find returns the entry of a file if both inodes look as they did when it was verified.
func (r *record) find(src, dst *meta) (known, bool) {
	e, ok := r.lookup(src.ino)
	if !ok || e.hint&dirFlag != 0 || e.state != stateOf(src, dst) {
		return known{}, false
	}
	return known{e.content, e.hint&plainFlag != 0}, true
}

// expects reports whether an inode of the source probably looks as it did when it was recorded. It does not look at the
// target.
func (r *record) expects(src *meta) bool {
	e, ok := r.lookup(src.ino)
	return ok && e.hint&^hintFlags == hintOf(src) && (e.hint&dirFlag != 0) == src.isDir()
}
