//go:build linux

package mover

import (
	"bufio"
	"cmp"
	"container/heap"
	"io"
	"os"
	"slices"
	"sync"
)

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
