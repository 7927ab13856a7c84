//go:build linux

package fsys

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"iter"
	"math"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Dirent is a name in a directory. kind has the S_IFMT bits, or is 0 if the file system does not report the type.
type Dirent struct {
	Name string
	Kind uint32
}

// NameList holds the names of a directory without . and .., sorted by their bytes. It takes 9 bytes for each name, besides
// the name.
type NameList struct {
	text []byte // the names, each followed by a NUL
	refs []nameRef
}

func (l NameList) Len() int { return len(l.refs) }

// At returns a name. Its string shares the memory of the list, which nothing changes after readdir.
func (l NameList) At(i int) Dirent {
	r := l.refs[i]
	return Dirent{unsafe.String(&l.text[r.from], int(r.length)), uint32(r.kind) << 12}
}

// Pointer returns the name for a system call: its bytes, followed by a NUL.
func (l NameList) Pointer(i int) *byte { return &l.text[l.refs[i].from] }

func (l NameList) All() iter.Seq[Dirent] {
	return func(yield func(Dirent) bool) {
		for i := range l.refs {
			if !yield(l.At(i)) {
				return
			}
		}
	}
}

// direntBufferSize is the size of one getdents call. A larger one saves no time.
const direntBufferSize = 64 << 10

// Readdir lists an open directory from its beginning.
func Readdir(fd int) (NameList, error) {
	var text []byte
	var sorter nameSorter
	err := eachName(fd, func(name []byte, kind uint32) error {
		if len(text)+len(name) >= math.MaxUint32 {
			return unix.EOVERFLOW
		}
		ref := nameRef{uint32(len(text)), uint16(len(name)), uint8(kind >> 12)}
		text = append(append(text, name...), 0)
		sorter.add(text, ref)
		return nil
	})
	return NameList{text, sorter.finish(text)}, err
}

// CountNames returns the number of names in an open directory, without . and ..
func CountNames(fd int) (n int, err error) {
	err = eachName(fd, func([]byte, uint32) error { n++; return nil })
	return n, err
}

// eachName calls f for the names in an open directory, in the order of the file system.
func eachName(fd int, f func(name []byte, kind uint32) error) error {
	if _, err := unix.Seek(fd, 0, unix.SEEK_SET); err != nil {
		return err
	}
	buf := direntBuffers.Get()
	defer direntBuffers.Put(buf)
	for {
		n, err := IgnoringEINTRValue(func() (int, error) { return unix.Getdents(fd, buf[:]) })
		if err != nil || n == 0 {
			return err
		}
		EachDirent(buf[:n], func(name []byte, kind uint32) {
			if err == nil {
				err = f(name, kind)
			}
		})
		if err != nil {
			return err
		}
	}
}

// EachDirent parses the result of getdents64: records of inode, offset, length (16 bit), type (8 bit), name and NUL.
func EachDirent(buf []byte, yield func(name []byte, kind uint32)) {
	const header = int(unsafe.Offsetof(unix.Dirent{}.Name))
	for len(buf) >= header {
		length := int(binary.NativeEndian.Uint16(buf[unsafe.Offsetof(unix.Dirent{}.Reclen):]))
		name := buf[header:length]
		name = name[:bytes.IndexByte(name, 0)]
		if string(name) != "." && string(name) != ".." {
			yield(name, uint32(buf[unsafe.Offsetof(unix.Dirent{}.Type)])<<12) // DT_x is S_IFx >> 12
		}
		buf = buf[length:]
	}
}

var direntBuffers BufferPool[[direntBufferSize]byte]

// nameRef is the place of a name in the text.
type nameRef struct {
	from   uint32
	length uint16
	kind   uint8 // S_IFMT bits >> 12
}

// runNames is the number of names that are sorted together while the next ones are being read.
const runNames = 4096

// nameSorter sorts the names of a directory while they are being read: a large directory has millions. Its zero value has no names.
type nameSorter struct {
	run    []nameRef // not sorted yet
	full   chan<- fullRun
	sorted <-chan []nameRef
}

// fullRun is a run with the text of its names. The text grows after that, but these names stay where they are.
type fullRun struct {
	text []byte
	run  []nameRef
}

// add adds a name, which the text contains.
func (s *nameSorter) add(text []byte, r nameRef) {
	s.run = append(s.run, r)
	if len(s.run) < runNames {
		return
	}
	if s.full == nil {
		full, sorted := make(chan fullRun, 16), make(chan []nameRef, 1)
		go func() { sorted <- sortRuns(full) }()
		s.full, s.sorted = full, sorted
	}
	s.full <- fullRun{text, s.run}
	s.run = make([]nameRef, 0, runNames)
}

// finish returns all names in the order of their bytes.
func (s *nameSorter) finish(text []byte) []nameRef {
	sortNames(text, s.run)
	if s.full == nil {
		return s.run
	}
	close(s.full)
	return mergeNames(text, <-s.sorted, s.run)
}

// sortRuns sorts and merges runs until there are no more.
func sortRuns(full <-chan fullRun) []nameRef {
	var sorted [][]nameRef // each is longer than the one after it
	var text []byte
	mergeLast := func() {
		last := len(sorted) - 1
		sorted[last-1] = mergeNames(text, sorted[last-1], sorted[last])
		sorted = sorted[:last]
	}
	for f := range full {
		text = f.text
		sortNames(text, f.run)
		sorted = append(sorted, f.run)
		for n := len(sorted); n > 1 && len(sorted[n-2]) <= len(sorted[n-1]); n = len(sorted) {
			mergeLast()
		}
	}
	for len(sorted) > 1 {
		mergeLast()
	}
	return sorted[0]
}

// sortNames compares integers where it can, which is twice as fast as comparing names.
func sortNames(text []byte, refs []nameRef) {
	type keyed struct {
		key uint64 // the bytes after the common prefix
		nameRef
	}
	keys := make([]keyed, len(refs))
	common := uint32(commonPrefix(text, refs))
	for i, r := range refs {
		keys[i] = keyed{firstBytes(text[r.from+common : r.from+uint32(r.length)]), r}
	}
	slices.SortFunc(keys, func(a, b keyed) int {
		if a.key != b.key {
			return cmp.Compare(a.key, b.key)
		}
		return compareNames(text, a.nameRef, b.nameRef)
	})
	for i := range keys {
		refs[i] = keys[i].nameRef
	}
}

// commonPrefix returns how many bytes all names begin with.
func commonPrefix(text []byte, refs []nameRef) int {
	if len(refs) == 0 {
		return 0
	}
	common := nameOf(text, refs[0])
	for _, r := range refs {
		for !bytes.HasPrefix(nameOf(text, r), common) {
			common = common[:len(common)-1]
		}
	}
	return len(common)
}

// firstBytes returns the first eight bytes of a text as an integer. The integers of two texts are in the order of the bytes, or equal,
// because no name contains a NUL.
func firstBytes(text []byte) uint64 {
	if len(text) >= 8 {
		return binary.BigEndian.Uint64(text)
	}
	var padded [8]byte
	copy(padded[:], text)
	return binary.BigEndian.Uint64(padded[:])
}

func mergeNames(text []byte, a, b []nameRef) []nameRef {
	merged := make([]nameRef, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if compareNames(text, a[0], b[0]) <= 0 {
			merged, a = append(merged, a[0]), a[1:]
		} else {
			merged, b = append(merged, b[0]), b[1:]
		}
	}
	return append(append(merged, a...), b...)
}

func compareNames(text []byte, a, b nameRef) int {
	return bytes.Compare(nameOf(text, a), nameOf(text, b))
}

func nameOf(text []byte, r nameRef) []byte { return text[r.from : r.from+uint32(r.length)] }
