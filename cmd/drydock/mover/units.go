//go:build linux

package mover

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"hash"

	"golang.org/x/sys/unix"
)

// unitSize is the number of bytes whose hash is a part of the content hash. Such hashes are also kept, see keeper.
const unitSize = 64 << 10

var zeroUnit [unitSize]byte

func units(size int64) int { return int(size/unitSize + min(1, size%unitSize)) }

func unitLength(size int64, i int) int64 { return min(unitSize, size-int64(i)*unitSize) }

// hashFile opens a regular file and returns the hash of its contents.
func hashFile(ctx context.Context, dirfd int, name string) (sum, error) {
	fd, err := openat(dirfd, name, unix.O_RDONLY, 0)
	if err != nil {
		return sum{}, err
	}
	defer unix.Close(fd)
	st, err := fstat(fd)
	if err != nil {
		return sum{}, err
	}
	return hashContents(ctx, fd, st.Size, dataBytes(&st), hashing{})
}

// hashing says how hashContents reads. Each of its functions may be nil.
type hashing struct {
	read func(bytes int64)        // after bytes were read
	unit func(index int64, s sum) // with the hash of each unit that is not all zeros
	all  bool                     // read holes, too: the file system's word for them is not enough
}

// hashContents returns the content hash of a file of the size. The hash is the SHA-256 of the size, followed by each unit
// of 64 KiB that has a byte other than zero: its index, then the SHA-256 of its bytes. Size and index have 8 bytes, big
// endian. The last unit may be short. So files with equal contents have equal hashes, wherever their holes are, and holes
// are not read,
// unless calls.all demands it.
// data is the estimate of dataBytes: it saves the search for holes in a small file that has none.
func hashContents(ctx context.Context, fd int, size, data int64, calls hashing) (sum, error) {
	h := sha256.New()
	writeInt(h, size)
	search := input{fd, data}.nextData
	if calls.all {
		search = func(off, size int64) (from, to int64, err error) { return off, size, nil }
	}
	err := eachUnitRun(size, search, func(from, to int64) error { return hashRun(ctx, h, fd, from, to, calls) })
	return sum(h.Sum(nil)), err
}

// eachUnitRun calls f for the runs of whole units that may have data, in order. All other units are in holes. Parts of holes in a unit read
// as zeros. search returns the next run of data, like seekData.
//
// A page of a preallocated range counts as data while it is in memory. If it leaves memory between the two searches for the ends of a run,
// the run is empty, and may begin within a unit. Then that unit counts as data.
func eachUnitRun(size int64, search func(off, size int64) (from, to int64, err error), f func(from, to int64) error) error {
	for off := int64(0); off < size; { // a multiple of unitSize
		from, to, err := search(off, size)
		if err != nil {
			return err
		}
		if from >= size {
			return nil
		}
		last := (max(to, from+1) - 1) / unitSize // the sizes of sparse files reach the largest number
		from, to = from/unitSize*unitSize, last*unitSize+unitLength(size, int(last))
		if err := f(from, to); err != nil {
			return err
		}
		off = to
	}
	return nil
}

// hashRun adds the units between from and to to the hash. from is a multiple of the size of a unit. to is one, too, or the
// end of the file.
func hashRun(ctx context.Context, h hash.Hash, fd int, from, to int64, calls hashing) error {
	buf := buffers.Get()
	defer buffers.Put(buf)
	next := readAhead{fd, from, to}
	for from < to {
		next.advance(from)
		if err := context.Cause(ctx); err != nil {
			return err
		}
		piece := buf[:min(to-from, bufferSize)]
		if err := readFull(fd, piece, from); err != nil {
			return err
		}
		hashUnits(h, piece, from/unitSize, calls)
		from += int64(len(piece))
		if calls.read != nil {
			calls.read(int64(len(piece)))
		}
	}
	return nil
}

// hashUnits adds units to the hash. index is that of the first one.
func hashUnits(h hash.Hash, data []byte, index int64, calls hashing) {
	for ; len(data) > 0; index++ {
		unit := data[:min(unitSize, len(data))]
		data = data[len(unit):]
		if bytes.Equal(unit, zeroUnit[:len(unit)]) {
			continue
		}
		hashed := sha256.Sum256(unit)
		writeInt(h, index)
		h.Write(hashed[:])
		if calls.unit != nil {
			calls.unit(index, hashed)
		}
	}
}

// hashBytes returns what hashContents returns for a file with these contents.
func hashBytes(contents []byte) sum {
	h := sha256.New()
	writeInt(h, int64(len(contents)))
	hashUnits(h, contents, 0, hashing{})
	return sum(h.Sum(nil))
}

// readFull reads from the offset until buf is full. It returns errChanged if the file ends before that.
func readFull(fd int, buf []byte, off int64) error {
	for len(buf) > 0 {
		n, err := ignoringEINTRValue(func() (int, error) { return unix.Pread(fd, buf, off) })
		if err != nil {
			return err
		}
		if n == 0 {
			return errChanged
		}
		buf, off = buf[n:], off+int64(n)
	}
	return nil
}

// sum is a SHA-256 hash.
type sum = [sha256.Size]byte

// writeInt adds the number to the hash, as 8 bytes in big endian.
func writeInt(h hash.Hash, n int64) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(n))
	h.Write(b[:])
}

// writeString adds the length of the string and its bytes to the hash.
func writeString(h hash.Hash, s string) {
	writeInt(h, int64(len(s)))
	h.Write([]byte(s))
}

// compareBlock is the number of bytes that are compared and written at once: devices rarely write less.
const compareBlock = 4096

// differingRun returns how many bytes are equal at the beginning, and how many differ after them, in whole blocks.
func differingRun(a, b []byte) (same, differ int) {
	for same < len(a) && equalBlock(a, b, same) {
		same += compareBlock
	}
	same = min(same, len(a))
	end := same
	for end < len(a) && !equalBlock(a, b, end) {
		end += compareBlock
	}
	return same, min(end, len(a)) - same
}

func equalBlock(a, b []byte, at int) bool {
	end := min(at+compareBlock, len(a))
	return bytes.Equal(a[at:end], b[at:end])
}

// bigFileMin is the minimum size of a big file. In two passes, only the differing blocks of a big file are written,
// under its final name. A run that dies may leave a mixture of old and new blocks. The next run recognizes it: the
// file's time is set last, and no record contains its inode in that state.
const bigFileMin = 1 << 20

// isBig reports whether a file is compared and written by blocks.
func (c *copier) isBig(e *entry) bool {
	return c.pass != PassWhole && e.meta.isRegular() && e.meta.size >= bigFileMin
}
