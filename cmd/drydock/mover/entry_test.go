//go:build linux

package mover

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Random entries come out of the blocks as they went in, whatever their fields are.
func TestBlocksKeepEveryField(t *testing.T) {
	r := newRandom(t)
	for _, n := range []int{0, 1, blockEntries, blockEntries + 1, 5000} {
		names := map[string]bool{}
		for len(names) < n {
			names[strings.Repeat("x", r.IntN(3))+fmt.Sprint(r.IntN(20*n))+strings.Repeat("\xff", r.IntN(100))] = true
		}
		var want []entry
		d := &dir{}
		var p packer
		sorted := make([]string, 0, n)
		for name := range names {
			sorted = append(sorted, name)
		}
		slices.Sort(sorted)
		for _, name := range sorted {
			e := entry{name: name, terminated: name + "\x00", meta: randomMeta(r)}
			if e.meta.isDir() {
				e.sub = &dir{parent: d}
			}
			p.add(e.name, &e.meta, e.sub)
			want = append(want, e)
		}
		p.finish()
		d.blocks = p.blocks
		i := 0
		for e := range d.all() {
			if unmarked(e) != want[i] {
				t.Fatalf("%d of %d: %+v, want %+v", i, n, *e, want[i])
			}
			i++
		}
		if i != n || d.count() != n {
			t.Errorf("%d entries, counted %d, want %d", i, d.count(), n)
		}
		requireFindable(t, d, want)
	}
}

// unmarked returns an entry without the place of its mark.
func unmarked(e *entry) entry {
	copied := *e
	copied.known, copied.knownBit = nil, 0
	return copied
}

// A mark stays in the block of its entry, and a block is known if all its entries except directories are.
func TestMarksStayInTheirBlocks(t *testing.T) {
	d, p := &dir{}, packer{}
	for i := range blockEntries + 3 {
		m := meta{mode: unix.S_IFREG}
		if i == 70 {
			m.mode = unix.S_IFDIR
		}
		var sub *dir
		if m.isDir() {
			sub = &dir{parent: d}
		}
		p.add(fmt.Sprintf("%03d", i), &m, sub)
	}
	p.finish()
	d.blocks = p.blocks
	i := 0
	for e := range d.all() {
		if i != 1 && e.sub == nil {
			e.markKnown()
		}
		i++
	}
	i = 0
	for e := range d.all() {
		if e.isKnown() == (i == 1 || i == 70) {
			t.Errorf("entry %d: %v", i, e.isKnown())
		}
		i++
	}
	if d.blocks[0].isKnown() || !d.blocks[1].isKnown() {
		t.Error("a block is known if all its files are")
	}
	d.find("001").markKnown()
	if !d.blocks[0].isKnown() {
		t.Error("the block is not known")
	}
}

func requireFindable(t *testing.T, d *dir, want []entry) {
	t.Helper()
	inOrder := finder{dir: d}
	for i := range want {
		if e := inOrder.find(want[i].name); e == nil || unmarked(e) != want[i] {
			t.Fatalf("%q was not found", want[i].name)
		}
		if e := d.find(want[i].name); e == nil || unmarked(e) != want[i] {
			t.Fatalf("%q was not found alone", want[i].name)
		}
		if e := d.find(want[i].name + "\x01"); e != nil {
			t.Fatalf("found %q", e.name)
		}
	}
	if d.find("") != nil || d.find("~") != nil {
		t.Error("found a name that does not exist")
	}
}

func randomMeta(r *rand.Rand) meta {
	pick := func(values ...int64) int64 { return values[r.IntN(len(values))] }
	kinds := []uint32{unix.S_IFREG, unix.S_IFREG, unix.S_IFREG, unix.S_IFDIR, unix.S_IFLNK, unix.S_IFBLK}
	m := meta{
		ino: uint64(pick(5, 1<<40, -1, r.Int64N(1<<62))), dev: uint32(pick(0, 1, 1<<32-1)), size: pick(0, 1, r.Int64(), 1<<62),
		mtimeSec: pick(0, -5, 1_700_000_000+r.Int64N(1000), 1<<40), mtimeNsec: uint32(pick(0, r.Int64N(1e9))),
		mode: kinds[r.IntN(len(kinds))] | uint32(pick(0, 0o644, 0o7777)), uid: uint32(pick(0, 1000, 1<<32-1)), gid: uint32(pick(0, 1<<32-1)),
		nlink: uint32(pick(1, 1, 0, 2, 1<<31)),
	}
	m.ctimeSec, m.ctimeNsec = m.mtimeSec, m.mtimeNsec
	if r.IntN(2) == 0 {
		m.ctimeSec, m.ctimeNsec = pick(0, -1, r.Int64N(1<<50)), uint32(r.Int64N(1e9))
	}
	return m
}

// Entries of similar files are small.
func TestBlocksAreCompact(t *testing.T) {
	var p packer
	const n = 100_000
	for i := range n {
		m := meta{ino: uint64(1000 + i), dev: 7, size: int64(i % 5000), mode: unix.S_IFREG | 0o644, uid: 1000, gid: 1000, nlink: 1,
			mtimeSec: 1_700_000_000 + int64(i/100), mtimeNsec: uint32(i * 7919)}
		m.ctimeSec, m.ctimeNsec = m.mtimeSec, m.mtimeNsec+5
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
