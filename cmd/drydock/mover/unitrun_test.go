//go:build linux

package mover

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
)

// Pages of preallocated ranges enter and leave memory at any time, so the ends of a run of data may be anywhere. The runs are still whole
// units, in order, and contain all data.
func TestRunsAreWholeUnitsWhateverTheSearchFinds(t *testing.T) {
	r := newRandom(t)
	for range 2000 {
		size := 1 + r.Int64N(20*unitSize)
		data := map[int64]bool{} // units with a page of data that never leaves
		for range r.IntN(5) {
			data[r.Int64N(size)/unitSize] = true
		}
		search := func(off, size int64) (from, to int64, err error) {
			if off >= size {
				t.Fatalf("the search begins at %d of %d", off, size)
			}
			end := size // the search may stop before the next data, never after it
			for unit := range data {
				if at := unit * unitSize; at+unitSize > off {
					end = min(end, max(at, off))
				}
			}
			from = off + r.Int64N(end-off+1)
			if from == size {
				return size, size, nil
			}
			return from, min(size, from+r.Int64N(3)*r.Int64N(2*unitSize)), nil
		}
		last := int64(0)
		err := eachUnitRun(size, search, func(from, to int64) error {
			if from%unitSize != 0 || to%unitSize != 0 && to != size || from < last || to <= from || to > size {
				t.Fatalf("a run from %d to %d after %d of %d", from, to, last, size)
			}
			for unit := from / unitSize; unit*unitSize < to; unit++ {
				delete(data, unit)
			}
			last = to
			return nil
		})
		if err != nil || len(data) > 0 {
			t.Fatalf("not in a run: units %v (%v)", data, err)
		}
	}
}

// A sparse file may grow by terabytes at once. Reading them would keep its member stopped for hours.
func TestUnitsOfNewHoleAreNotRead(t *testing.T) {
	const before, size = 10*unitSize + 5, 20 * unitSize
	sums := make([]sum, units(before))
	for i := range sums {
		sums[i][0] = 1
	}
	p := &patchedUnits{kept: &keptHashes{meta: meta{size: before}, sums: sums}, size: size,
		written: make([]atomic.Bool, units(size)), want: make([]sum, units(size))}
	for i := range 11 {
		p.want[i][0] = 1
	}
	p.written[10].Store(true) // it was longer
	p.noteHole(before, size)
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, make([]byte, size), 0o600))
	f, err := os.Open(file)
	must(t, err)
	defer f.Close()
	rehashed := (&keeper{}).reserve(size)
	must(t, p.rehash(context.Background(), nil, int(f.Fd()), size, rehashed))
	for i := range p.written {
		if i > 10 && (rehashed[i] != zeroSum() || p.want[i] != zeroSum()) {
			t.Errorf("unit %d has the hashes %x and %x", i, rehashed[i], p.want[i])
		}
		if p.written[i].Load() != (i == 10) {
			t.Errorf("unit %d is read: %v", i, i != 10)
		}
	}
}
