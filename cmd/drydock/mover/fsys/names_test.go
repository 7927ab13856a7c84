//go:build linux

package fsys

import (
	"math/rand/v2"
	"slices"
	"testing"

	"drydock.dev/test/seed"
)

func TestNamesAreSortedByTheirBytes(t *testing.T) {
	r := seed.Random(t)
	for _, n := range []int{0, 1, 20, runNames - 1, runNames, runNames + 1, 3 * runNames, 9*runNames + 17} {
		var text []byte
		var sorter nameSorter
		names := make([]string, n)
		for i := range names {
			names[i] = fewBytes(r, r.IntN(20)) // some begin with the whole of another name, and some are equal
			ref := nameRef{from: uint32(len(text)), length: uint16(len(names[i]))}
			text = append(append(text, names[i]...), 0)
			sorter.add(text, ref)
		}
		l := NameList{text, sorter.finish(text)}
		var sorted []string
		for d := range l.All() {
			sorted = append(sorted, d.Name)
		}
		slices.Sort(names)
		if !slices.Equal(sorted, names) {
			t.Errorf("%d names are not sorted", n)
		}
	}
}

// fewBytes returns a name with few different bytes, so that names often begin with the same ones.
func fewBytes(r *rand.Rand, length int) string {
	name := make([]byte, length)
	for i := range name {
		name[i] = "\x01a\xff"[r.IntN(3)]
	}
	return string(name)
}
