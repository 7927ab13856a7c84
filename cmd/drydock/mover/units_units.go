//go:build linux

package mover

import (
	"bytes"
	"context"
	"crypto/sha256"
)

// sum is a SHA-256 hash.
type sum = [sha256.Size]byte

// unitSize is the number of bytes whose hash is kept, see keeper. Files are compared in whole units.
const unitSize = 64 << 10

func units(size int64) int { return int(size/unitSize + min(1, size%unitSize)) }

func unitLength(size int64, i int) int64 { return min(unitSize, size-int64(i)*unitSize) }

// wholeUnits returns the first unit that begins in a range, and the one after the last unit that ends in it.
func wholeUnits(from, to, size int64) (first, end int) {
	first, end = units(from), int(to/unitSize) // units rounds up
	if to == size {
		end = units(size)
	}
	return first, end
}

// search returns the next run of data at or after off, like seekData.
type search func(off, size int64) (from, to int64, err error)

// searchAll finds data everywhere: it does not believe in holes.
func searchAll(off, size int64) (from, to int64, err error) { return off, size, nil }

// eachUnitRun calls f for the runs of whole units that may have data, in order. All other units are in holes. Parts of holes in a unit read
// as zeros.
//
// A page of a preallocated range counts as data while it is in memory. If it leaves memory between the two searches for the ends of a run,
// the run is empty, and may begin within a unit. Then that unit counts as data.
func eachUnitRun(size int64, find search, f func(from, to int64) error) error {
	for off := int64(0); off < size; { // a multiple of unitSize
		from, to, err := find(off, size)
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

// readRange reads a range of one file, or the same range of both sides, and calls f for each part of at most bufferSize. An error of a file
// is a *sideError.
func readRange(ctx context.Context, fds []int, from, to int64, f func(off int64, parts [2][]byte) error) error {
	var bufs [2]*[bufferSize]byte
	var next [2]readAhead
	for k, fd := range fds {
		bufs[k], next[k] = buffers.Get(), readAhead{fd, from, to}
		defer buffers.Put(bufs[k])
	}
	for off := from; off < to; {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		n := min(bufferSize, to-off)
		var parts [2][]byte
		for k := range fds {
			next[k].advance(off)
		}
		for k, fd := range fds {
			parts[k] = bufs[k][:n]
			if err := readFull(fd, parts[k], off); err != nil {
				return &sideError{side(k), err}
			}
		}
		if err := f(off, parts); err != nil {
			return err
		}
		off += n
	}
	return nil
}

// sideError is an error of one of two files.
type sideError struct {
	side side
	err  error
}

func (e *sideError) Error() string { return e.side.String() + ": " + e.err.Error() }
func (e *sideError) Unwrap() error { return e.err }

// comparison compares the contents of two open files of the same size.
type comparison struct {
	fds   [2]int
	size  int64
	data  [2]int64         // estimates of dataBytes, which save the search for holes in small files without any; 0 if unknown
	all   [2]bool          // read holes of a side, too: the file system's word for them is not enough
	limit *Limiter         // may be nil
	read  func(n int64)    // after n bytes of both sides were compared; may be nil
	unit  func(int64, sum) // with index and hash of each unit of the target that may have data; may be nil
}

// run reports whether the contents are equal. It stops at the first difference. An error of a file is a *sideError.
func (c *comparison) run(ctx context.Context) (bool, error) {
	err := eachUnitRun(c.size, c.nextData, func(from, to int64) error {
		return readRange(ctx, c.fds[:], from, to, func(off int64, parts [2][]byte) error {
			if !bytes.Equal(parts[source], parts[target]) {
				return errMismatch
			}
			if c.unit != nil {
				hashUnits(parts[target], off/unitSize, c.unit)
			}
			n := int64(len(parts[target]))
			if c.read != nil {
				c.read(n)
			}
			c.limit.wait(ctx, 2*n)
			return nil
		})
	})
	if err == errMismatch {
		return false, nil
	}
	return err == nil, err
}

// nextData returns the next run of data on either side.
func (c *comparison) nextData(off, size int64) (from, to int64, err error) {
	from, to = size, size
	for k, fd := range c.fds {
		find := search(input{fd, c.data[k]}.nextData)
		if c.all[k] {
			find = searchAll
		}
		begin, end, err := find(off, size)
		if err != nil {
			return 0, 0, &sideError{side(k), err}
		}
		if begin < from {
			from, to = begin, end
		}
	}
	return from, to, nil
}

// hashUnits calls f with the hash of each unit. index is that of the first one.
func hashUnits(data []byte, index int64, f func(index int64, s sum)) {
	for ; len(data) > 0; index++ {
		n := min(unitSize, len(data))
		f(index, sha256.Sum256(data[:n]))
		data = data[n:]
	}
}

// hashFileUnits calls f with the hash of each unit of an open file that may have data.
func hashFileUnits(ctx context.Context, fd int, size, data int64, limit *Limiter, f func(index int64, s sum)) error {
	return eachUnitRun(size, input{fd, data}.nextData, func(from, to int64) error {
		return readRange(ctx, []int{fd}, from, to, func(off int64, parts [2][]byte) error {
			hashUnits(parts[0], off/unitSize, f)
			limit.wait(ctx, int64(len(parts[0])))
			return nil
		})
	})
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

// writeDiffering writes the blocks of want that differ from have, the contents at off. It returns the number of bytes
// written.
func writeDiffering(fd int, want, have []byte, off int64) (written int64, err error) {
	for len(want) > 0 {
		same, differ := differingRun(want, have)
		if differ == 0 {
			break
		}
		if err := writeFull(fd, want[same:same+differ], off+int64(same)); err != nil {
			return written, err
		}
		written += int64(differ)
		want, have, off = want[same+differ:], have[same+differ:], off+int64(same+differ)
	}
	return written, nil
}
