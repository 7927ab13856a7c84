//go:build linux

package mover

import (
	"bufio"
	"bytes"
	"cmp"
	"container/heap"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"os"
	"slices"
	"sort"
	"sync"

	"golang.org/x/sys/unix"
)

// newRecordWriter returns a writer that sorts in a file of the target without a name.
func (c *copier) newRecordWriter() *recordWriter {
	return &recordWriter{limit: c.hooks.runEntries, spill: func() (*os.File, error) {
		f, tmp, err := c.createRecordFile()
		if err == nil {
			c.discard(c.dst.fd, tmp)
		}
		return f, err
	}}
}

// createRecordFile creates a file with a temporary name in the target's root.
func (c *copier) createRecordFile() (f *os.File, tmp string, err error) {
	tmp, err = c.makeTemp(c.tree.top, func(name string) error {
		fd, err := openat(c.dst.fd, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0o600)
		if err == nil {
			f = os.NewFile(uintptr(fd), name)
		}
		return err
	})
	return f, tmp, err
}

// saveRecord gives the record its name after it is complete and on the device. A lack of space for it is not an error.
func (c *copier) saveRecord() error {
	err := c.writeRecord(c.twoPass.current)
	if kindOf(err) == kindNoSpace {
		c.twoPass.current, c.twoPass.saved = nil, nil
		c.warn("the target has no space for the record of verified files, so no file counts as unchanged after this pass")
		return nil
	}
	if err != nil {
		return &fault{target, "writing", recordName, err}
	}
	return nil
}

func (c *copier) writeRecord(w *recordWriter) error {
	if err := cmp.Or(w.err, c.checkOwned()); err != nil {
		return err
	}
	f, tmp, err := c.createRecordFile()
	if err != nil {
		return err
	}
	c.twoPass.saved, err = w.encode(f, c.twoPass.id)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil && c.hooks.recording != nil {
		c.hooks.recording()
	}
	if err == nil {
		err = c.checkOwned()
	}
	if err == nil {
		err = ignoringEINTR(func() error { return unix.Renameat(c.dst.fd, tmp, c.dst.fd, recordName) })
	}
	if err != nil {
		c.discard(c.dst.fd, tmp)
		return err
	}
	return ignoringEINTR(func() error { return unix.Fsync(c.dst.fd) })
}

// encode writes the record to a file. It returns the inodes of its files.
func (w *recordWriter) encode(f *os.File, id recordID) (*inodeSet, error) {
	bound, err := id.fingerprint(int(f.Fd()))
	if err != nil {
		return nil, err
	}
	out, h := bufio.NewWriterSize(f, bufferSize), sha256.New()
	both := io.MultiWriter(out, h)
	b := append([]byte(recordMagic), bound[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(w.all))
	inodes := &inodeSet{}
	err = w.each(func(r *recorded) error {
		if r.hint&dirFlag == 0 {
			inodes.add(r.ino)
		}
		b = r.append(b)
		if len(b) < 32<<10 {
			return nil
		}
		_, err := both.Write(b)
		b = b[:0]
		return err
	})
	if err == nil {
		_, err = both.Write(b)
	}
	if err == nil {
		_, err = out.Write(h.Sum(nil))
	}
	if err == nil {
		err = out.Flush()
	}
	return inodes, err
}

// runEntries is how many entries a recordWriter keeps in memory. It sorts more of them in a temporary file.
const runEntries = 32 << 10

// recordWriter collects the entries of a record and sorts them by inode, with little memory.
type recordWriter struct {
	spill func() (*os.File, error) // creates the temporary file
	limit int                      // entries in memory; 0 means runEntries

	mu    sync.Mutex
	now   []recorded
	runs  []int    // numbers of entries of the sorted runs in the file
	file  *os.File // nil without runs
	err   error    // the first error of the temporary file
	all   int64    // entries
	files int64
	bytes int64 // data bytes of the files
}

// add adds an entry. data is the number of data bytes of a file. An error of the temporary file is reported by each.
func (w *recordWriter) add(r recorded, data int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return
	}
	w.now = append(w.now, r)
	w.all++
	if r.hint&dirFlag == 0 {
		w.files++
		w.bytes += data
	}
	if len(w.now) >= cmp.Or(w.limit, runEntries) {
		w.err = w.writeRun()
	}
}

func (w *recordWriter) sortNow() {
	slices.SortFunc(w.now, func(a, b recorded) int { return cmp.Compare(a.ino, b.ino) })
}

func (w *recordWriter) writeRun() (err error) {
	if w.file == nil {
		if w.file, err = w.spill(); err != nil {
			return err
		}
	}
	w.sortNow()
	out := bufio.NewWriterSize(w.file, bufferSize)
	var b []byte
	for i := range w.now {
		b = w.now[i].append(b[:0])
		if _, err := out.Write(b); err != nil {
			return err
		}
	}
	w.runs, w.now = append(w.runs, len(w.now)), w.now[:0]
	return out.Flush()
}

// each calls f for all entries, sorted by inode. Nothing is added after that.
func (w *recordWriter) each(f func(*recorded) error) error {
	if w.err != nil {
		return w.err
	}
	if w.file == nil {
		w.sortNow()
		for i := range w.now {
			if err := f(&w.now[i]); err != nil {
				return err
			}
		}
		return nil
	}
	if err := w.writeRun(); err != nil {
		return err
	}
	w.now = nil
	return w.merge(f)
}

// runReader reads one sorted run.
type runReader struct {
	in   *bufio.Reader
	left int
	at   recorded
}

func (r *runReader) next() error {
	var b [recordedSize]byte
	if _, err := io.ReadFull(r.in, b[:]); err != nil {
		return err
	}
	r.at.decode(b[:])
	r.left--
	return nil
}

// runHeap orders runs by their next entry.
type runHeap []*runReader

func (h runHeap) Len() int           { return len(h) }
func (h runHeap) Less(i, j int) bool { return h[i].at.ino < h[j].at.ino }
func (h runHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *runHeap) Push(x any)        { *h = append(*h, x.(*runReader)) }
func (h *runHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

func (w *recordWriter) merge(f func(*recorded) error) error {
	var h runHeap
	offset := int64(0)
	for _, n := range w.runs {
		size := int64(n) * recordedSize
		if n > 0 {
			r := &runReader{in: bufio.NewReaderSize(io.NewSectionReader(w.file, offset, size), 16<<10), left: n}
			if err := r.next(); err != nil {
				return err
			}
			h = append(h, r)
		}
		offset += size
	}
	heap.Init(&h)
	for len(h) > 0 {
		r := h[0]
		if err := f(&r.at); err != nil {
			return err
		}
		if r.left == 0 {
			heap.Pop(&h)
			continue
		}
		if err := r.next(); err != nil {
			return err
		}
		heap.Fix(&h, 0)
	}
	return nil
}

func (w *recordWriter) close() {
	if w != nil && w.file != nil {
		_ = w.file.Close() // it has no name any more
		w.file = nil
	}
}

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
