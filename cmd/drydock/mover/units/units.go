//go:build linux

// Package units compares and hashes the contents of files in units, and keeps the hashes of big files of the target between passes.
package units

import (
	"bytes"
	"context"
	"crypto/sha256"

	"drydock.dev/cmd/drydock/mover/fault"
	"drydock.dev/cmd/drydock/mover/fsys"
	"drydock.dev/cmd/drydock/mover/progress"
)

// Sum is a SHA-256 hash.
type Sum = [sha256.Size]byte

// Size is the number of bytes whose hash is kept, see Keeper. Files are compared in whole units.
const Size = 64 << 10

func Count(size int64) int { return int(size/Size + min(1, size%Size)) }

func Length(size int64, i int) int64 { return min(Size, size-int64(i)*Size) }

// WholeUnits returns the first unit that begins in a range, and the one after the last unit that ends in it.
func WholeUnits(from, to, size int64) (first, end int) {
	first, end = Count(from), int(to/Size) // units rounds up
	if to == size {
		end = Count(size)
	}
	return first, end
}

// search returns the next run of data at or after off, like SeekData.
type search func(off, size int64) (from, to int64, err error)

// searchAll finds data everywhere: it does not believe in holes.
func searchAll(off, size int64) (from, to int64, err error) { return off, size, nil }

// eachUnitRun calls f for the runs of whole units that may have data, in order. All other units are in holes. Parts of holes in a unit read
// as zeros.
//
// A page of a preallocated range counts as data while it is in memory. If it leaves memory between the two searches for the ends of a run,
// the run is empty, and may begin within a unit. Then that unit counts as data.
func eachUnitRun(size int64, find search, f func(from, to int64) error) error {
	for off := int64(0); off < size; { // a multiple of Size
		from, to, err := find(off, size)
		if err != nil {
			return err
		}
		if from >= size {
			return nil
		}
		last := (max(to, from+1) - 1) / Size // the sizes of sparse files reach the largest number
		from, to = from/Size*Size, last*Size+Length(size, int(last))
		if err := f(from, to); err != nil {
			return err
		}
		off = to
	}
	return nil
}

// ReadRange reads a range of one file, or the same range of both sides, and calls f for each part of at most BufferSize. An error of a file
// is a *SideError.
func ReadRange(ctx context.Context, fds []int, from, to int64, f func(off int64, parts [2][]byte) error) error {
	var bufs [2]*[fsys.BufferSize]byte
	var next [2]fsys.ReadAhead
	for k, fd := range fds {
		bufs[k], next[k] = fsys.Buffers.Get(), fsys.ReadAhead{Fd: fd, From: from, To: to}
		defer fsys.Buffers.Put(bufs[k])
	}
	for off := from; off < to; {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		n := min(fsys.BufferSize, to-off)
		var parts [2][]byte
		for k := range fds {
			next[k].Advance(off)
		}
		for k, fd := range fds {
			parts[k] = bufs[k][:n]
			if err := fsys.ReadFull(fd, parts[k], off); err != nil {
				return &SideError{fault.Side(k), err}
			}
		}
		if err := f(off, parts); err != nil {
			return err
		}
		off += n
	}
	return nil
}

// SideError is an error of one of two files.
type SideError struct {
	Side fault.Side
	Err  error
}

func (e *SideError) Error() string { return e.Side.String() + ": " + e.Err.Error() }
func (e *SideError) Unwrap() error { return e.Err }

// Comparison compares the contents of two open files of the same size.
type Comparison struct {
	Fds   [2]int
	Size  int64
	Data  [2]int64          // estimates of DataBytes, which save the search for holes in small files without any; 0 if unknown
	All   [2]bool           // read holes of a side, too: the file system's word for them is not enough
	Limit *progress.Limiter // may be nil
	Read  func(n int64)     // after n bytes of both sides were compared; may be nil
	Unit  func(int64, Sum)  // with index and hash of each unit of the target that may have data; may be nil
}

// Run reports whether the contents are equal. It stops at the first difference. An error of a file is a *SideError.
func (c *Comparison) Run(ctx context.Context) (bool, error) {
	err := eachUnitRun(c.Size, c.nextData, func(from, to int64) error {
		return ReadRange(ctx, c.Fds[:], from, to, func(off int64, parts [2][]byte) error {
			if !bytes.Equal(parts[fault.Source], parts[fault.Target]) {
				return fault.ErrMismatch
			}
			if c.Unit != nil {
				hashUnits(parts[fault.Target], off/Size, c.Unit)
			}
			n := int64(len(parts[fault.Target]))
			if c.Read != nil {
				c.Read(n)
			}
			c.Limit.Wait(ctx, 2*n)
			return nil
		})
	})
	if err == fault.ErrMismatch {
		return false, nil
	}
	return err == nil, err
}

// NextData returns the next run of data on either side.
func (c *Comparison) nextData(off, size int64) (from, to int64, err error) {
	from, to = size, size
	for k, fd := range c.Fds {
		find := search(fsys.Input{Fd: fd, Data: c.Data[k]}.NextData)
		if c.All[k] {
			find = searchAll
		}
		begin, end, err := find(off, size)
		if err != nil {
			return 0, 0, &SideError{fault.Side(k), err}
		}
		if begin < from {
			from, to = begin, end
		}
	}
	return from, to, nil
}

// hashUnits calls f with the hash of each unit. index is that of the first one.
func hashUnits(data []byte, index int64, f func(index int64, s Sum)) {
	for ; len(data) > 0; index++ {
		n := min(Size, len(data))
		f(index, sha256.Sum256(data[:n]))
		data = data[n:]
	}
}

// HashFileUnits calls f with the hash of each unit of an open file that may have data.
func HashFileUnits(ctx context.Context, fd int, size, data int64, limit *progress.Limiter, f func(index int64, s Sum)) error {
	return eachUnitRun(size, fsys.Input{Fd: fd, Data: data}.NextData, func(from, to int64) error {
		return ReadRange(ctx, []int{fd}, from, to, func(off int64, parts [2][]byte) error {
			hashUnits(parts[0], off/Size, f)
			limit.Wait(ctx, int64(len(parts[0])))
			return nil
		})
	})
}

// CompareBlock is the number of bytes that are compared and written at once: devices rarely write less.
const CompareBlock = 4096

// differingRun returns how many bytes are equal at the beginning, and how many differ after them, in whole blocks.
func differingRun(a, b []byte) (same, differ int) {
	for same < len(a) && equalBlock(a, b, same) {
		same += CompareBlock
	}
	same = min(same, len(a))
	end := same
	for end < len(a) && !equalBlock(a, b, end) {
		end += CompareBlock
	}
	return same, min(end, len(a)) - same
}

func equalBlock(a, b []byte, at int) bool {
	end := min(at+CompareBlock, len(a))
	return bytes.Equal(a[at:end], b[at:end])
}

// WriteDiffering writes the blocks of want that differ from have, the contents at off. It returns the number of bytes
// written.
func WriteDiffering(fd int, want, have []byte, off int64) (written int64, err error) {
	for len(want) > 0 {
		same, differ := differingRun(want, have)
		if differ == 0 {
			break
		}
		if err := fsys.WriteFull(fd, want[same:same+differ], off+int64(same)); err != nil {
			return written, err
		}
		written += int64(differ)
		want, have, off = want[same+differ:], have[same+differ:], off+int64(same+differ)
	}
	return written, nil
}
