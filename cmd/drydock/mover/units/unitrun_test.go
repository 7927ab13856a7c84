//go:build linux

package units

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"drydock.dev/cmd/drydock/mover/fsys"
	"drydock.dev/test/seed"
)

// Pages of preallocated ranges enter and leave memory at any time, so the ends of a run of data may be anywhere. The runs are still whole
// units, in order, and contain all data.
func TestRunsAreWholeUnitsWhateverTheSearchFinds(t *testing.T) {
	r := seed.Random(t)
	for range 2000 {
		size := 1 + r.Int64N(20*Size)
		data := map[int64]bool{} // units with a page of data that never leaves
		for range r.IntN(5) {
			data[r.Int64N(size)/Size] = true
		}
		search := func(off, size int64) (from, to int64, err error) {
			if off >= size {
				t.Fatalf("the search begins at %d of %d", off, size)
			}
			end := size // the search may stop before the next data, never after it
			for unit := range data {
				if at := unit * Size; at+Size > off {
					end = min(end, max(at, off))
				}
			}
			from = off + r.Int64N(end-off+1)
			if from == size {
				return size, size, nil
			}
			return from, min(size, from+r.Int64N(3)*r.Int64N(2*Size)), nil
		}
		last := int64(0)
		err := eachUnitRun(size, search, func(from, to int64) error {
			if from%Size != 0 || to%Size != 0 && to != size || from < last || to <= from || to > size {
				t.Fatalf("a run from %d to %d after %d of %d", from, to, last, size)
			}
			for unit := from / Size; unit*Size < to; unit++ {
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
	const before, size = 10*Size + 5, 20 * Size
	sums := make([]Sum, Count(before))
	for i := range sums {
		sums[i][0] = 1
	}
	p := &Patch{Kept: &KeptHashes{Meta: fsys.Meta{Size: before}, Sums: sums}, Size: size,
		Written: make([]atomic.Bool, Count(size)), Want: make([]Sum, Count(size))}
	for i := range 11 {
		p.Want[i][0] = 1
	}
	p.Written[10].Store(true) // it was longer
	p.NoteHole(before, size)
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, make([]byte, size), 0o600))
	f, err := os.Open(file)
	must(t, err)
	defer f.Close()
	rehashed := (&Keeper{}).Reserve(size)
	must(t, p.Rehash(context.Background(), nil, int(f.Fd()), size, rehashed))
	for i := range p.Written {
		if i > 10 && (rehashed[i] != ZeroSum() || p.Want[i] != ZeroSum()) {
			t.Errorf("unit %d has the hashes %x and %x", i, rehashed[i], p.Want[i])
		}
		if p.Written[i].Load() != (i == 10) {
			t.Errorf("unit %d is read: %v", i, i != 10)
		}
	}
}
