//go:build linux

package mover

import (
	"iter"
	"math"
	"unsafe"

	"golang.org/x/sys/unix"
)

// dirent is a name in a directory. kind has the S_IFMT bits, or is 0 if the file system does not report the type.
type dirent struct {
	name string
	kind uint32
}

// nameList holds the names of a directory without . and .., sorted by their bytes. It takes 9 bytes for each name, besides
// the name.
type nameList struct {
	text []byte // the names, each followed by a NUL
	refs []nameRef
}

func (l nameList) len() int { return len(l.refs) }

// at returns a name. Its string shares the memory of the list, which nothing changes after readdir.
func (l nameList) at(i int) dirent {
	r := l.refs[i]
	return dirent{unsafe.String(&l.text[r.from], int(r.length)), uint32(r.kind) << 12}
}

// pointer returns the name for a system call: its bytes, followed by a NUL.
func (l nameList) pointer(i int) *byte { return &l.text[l.refs[i].from] }

func (l nameList) all() iter.Seq[dirent] {
	return func(yield func(dirent) bool) {
		for i := range l.refs {
			if !yield(l.at(i)) {
				return
			}
		}
	}
}

// direntBufferSize is the size of one getdents call. A larger one saves no time.
const direntBufferSize = 64 << 10

// readdir lists an open directory from its beginning.
func readdir(fd int) (nameList, error) {
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
	return nameList{text, sorter.finish(text)}, err
}

// countNames returns the number of names in an open directory, without . and ..
func countNames(fd int) (n int, err error) {
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
		n, err := ignoringEINTRValue(func() (int, error) { return unix.Getdents(fd, buf[:]) })
		if err != nil || n == 0 {
			return err
		}
		eachDirent(buf[:n], func(name []byte, kind uint32) {
			if err == nil {
				err = f(name, kind)
			}
		})
		if err != nil {
			return err
		}
	}
}

var direntBuffers bufferPool[[direntBufferSize]byte]
