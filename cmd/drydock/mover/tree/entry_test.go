//go:build linux

package tree

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/fsys"
	"drydock.dev/test/seed"
)

// Random entries come out of the blocks as they went in, whatever their fields are.
func TestBlocksKeepEveryField(t *testing.T) {
	r := seed.Random(t)
	for _, n := range []int{0, 1, BlockEntries, BlockEntries + 1, 5000} {
		names := map[string]bool{}
		for len(names) < n {
			names[strings.Repeat("x", r.IntN(3))+fmt.Sprint(r.IntN(20*n))+strings.Repeat("\xff", r.IntN(100))] = true
		}
		var want []Entry
		d := &Dir{}
		var p packer
		sorted := make([]string, 0, n)
		for name := range names {
			sorted = append(sorted, name)
		}
		slices.Sort(sorted)
		for _, name := range sorted {
			e := Entry{Name: name, Terminated: name + "\x00", Meta: randomMeta(r)}
			if e.Meta.IsDir() {
				e.Sub = &Dir{Parent: d}
			}
			p.add(e.Name, &e.Meta, e.Sub)
			want = append(want, e)
		}
		p.finish()
		d.Blocks = p.blocks
		i := 0
		for e := range d.All() {
			if unmarked(e) != want[i] {
				t.Fatalf("%d of %d: %+v, want %+v", i, n, *e, want[i])
			}
			i++
		}
		if i != n || d.Count() != n {
			t.Errorf("%d entries, counted %d, want %d", i, d.Count(), n)
		}
		requireFindable(t, d, want)
	}
}

// unmarked returns an entry without the place of its mark.
func unmarked(e *Entry) Entry {
	copied := *e
	copied.known, copied.knownBit = nil, 0
	return copied
}

// A mark stays in the block of its entry, and a block is known if all its entries except directories are.
func TestMarksStayInTheirBlocks(t *testing.T) {
	d, p := &Dir{}, packer{}
	for i := range BlockEntries + 3 {
		m := fsys.Meta{Mode: unix.S_IFREG}
		if i == 70 {
			m.Mode = unix.S_IFDIR
		}
		var sub *Dir
		if m.IsDir() {
			sub = &Dir{Parent: d}
		}
		p.add(fmt.Sprintf("%03d", i), &m, sub)
	}
	p.finish()
	d.Blocks = p.blocks
	i := 0
	for e := range d.All() {
		if i != 1 && e.Sub == nil {
			e.MarkKnown()
		}
		i++
	}
	i = 0
	for e := range d.All() {
		if e.IsKnown() == (i == 1 || i == 70) {
			t.Errorf("entry %d: %v", i, e.IsKnown())
		}
		i++
	}
	if d.Blocks[0].IsKnown() || !d.Blocks[1].IsKnown() {
		t.Error("a block is known if all its files are")
	}
	d.Find("001").MarkKnown()
	if !d.Blocks[0].IsKnown() {
		t.Error("the block is not known")
	}
}

func requireFindable(t *testing.T, d *Dir, want []Entry) {
	t.Helper()
	inOrder := Finder{Dir: d}
	for i := range want {
		if e := inOrder.Find(want[i].Name); e == nil || unmarked(e) != want[i] {
			t.Fatalf("%q was not found", want[i].Name)
		}
		if e := d.Find(want[i].Name); e == nil || unmarked(e) != want[i] {
			t.Fatalf("%q was not found alone", want[i].Name)
		}
		if e := d.Find(want[i].Name + "\x01"); e != nil {
			t.Fatalf("found %q", e.Name)
		}
	}
	if d.Find("") != nil || d.Find("~") != nil {
		t.Error("found a name that does not exist")
	}
}

func randomMeta(r *rand.Rand) fsys.Meta {
	pick := func(values ...int64) int64 { return values[r.IntN(len(values))] }
	kinds := []uint32{unix.S_IFREG, unix.S_IFREG, unix.S_IFREG, unix.S_IFDIR, unix.S_IFLNK, unix.S_IFBLK}
	m := fsys.Meta{
		Ino: uint64(pick(5, 1<<40, -1, r.Int64N(1<<62))), Dev: uint32(pick(0, 1, 1<<32-1)), Size: pick(0, 1, r.Int64(), 1<<62),
		MtimeSec: pick(0, -5, 1_700_000_000+r.Int64N(1000), 1<<40), MtimeNsec: uint32(pick(0, r.Int64N(1e9))),
		Mode: kinds[r.IntN(len(kinds))] | uint32(pick(0, 0o644, 0o7777)), Uid: uint32(pick(0, 1000, 1<<32-1)), Gid: uint32(pick(0, 1<<32-1)),
		Nlink: uint32(pick(1, 1, 0, 2, 1<<31)),
	}
	m.CtimeSec, m.CtimeNsec = m.MtimeSec, m.MtimeNsec
	if r.IntN(2) == 0 {
		m.CtimeSec, m.CtimeNsec = pick(0, -1, r.Int64N(1<<50)), uint32(r.Int64N(1e9))
	}
	return m
}

// Entries of similar files are small.
func TestBlocksAreCompact(t *testing.T) {
	var p packer
	const n = 100_000
	for i := range n {
		m := fsys.Meta{Ino: uint64(1000 + i), Dev: 7, Size: int64(i % 5000), Mode: unix.S_IFREG | 0o644, Uid: 1000, Gid: 1000, Nlink: 1,
			MtimeSec: 1_700_000_000 + int64(i/100), MtimeNsec: uint32(i * 7919)}
		m.CtimeSec, m.CtimeNsec = m.MtimeSec, m.MtimeNsec+5
		p.add(fmt.Sprintf("file%08d.dat", i), &m, nil)
	}
	p.finish()
	size := 0
	for i := range p.blocks {
		size += cap(p.blocks[i].data)
	}
	if each := size / n; each > 26 {
		t.Errorf("an entry takes %d bytes", each)
	}
}
