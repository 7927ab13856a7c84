//go:build linux

package mover

import (
	"encoding/binary"
	"math/bits"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// block holds up to blockEntries entries of a directory, sorted by name, in a compact form. Memory for millions of entries
// is scarce, and most of them are needed only twice: to compare and to verify.
//
// Each entry has the length of the prefix that its name shares with the previous name, the length of the rest, the rest, a
// byte of flags, and the fields of meta as differences from the previous entry. Fields are left out as the flags say.
type block struct {
	data   []byte
	subs   []*dir // the subdirectories among the entries, in the same order
	count  int
	text   int   // bytes of all names, with a NUL after each
	copied []sum // of each entry; nil if none is kept, see reserveCopiedSums

	known [blockEntries / 64]uint64 // a bit for each entry, see markKnown
}

// blockEntries is the number of entries in a block. Longer blocks save little memory.
const blockEntries = 128

// isKnown reports whether all entries except directories are known.
func (b *block) isKnown() bool {
	n := len(b.subs)
	for i := range b.known {
		n += bits.OnesCount64(atomic.LoadUint64(&b.known[i]))
	}
	return n == b.count
}

// unpack returns the entries of a block. It reuses buf, whose contents it overwrites.
func (b *block) unpack(buf []entry) []entry {
	list := buf[:0]
	var text strings.Builder
	text.Grow(b.text)
	u := unpacker{b.data}
	subs := b.subs
	var last meta
	begin := 0
	for range b.count {
		shared, rest := int(u.unsigned()), int(u.unsigned())
		from := text.Len()
		text.WriteString(text.String()[begin : begin+shared])
		text.Write(u.data[:rest])
		text.WriteByte(0)
		u.data = u.data[rest:]
		begin, last = from, u.meta(&last)
		list = append(list, entry{meta: last})
		if last.mode&unix.S_IFMT == unix.S_IFDIR {
			list[len(list)-1].sub, subs = subs[0], subs[1:]
		}
	}
	all, from := text.String(), 0
	for i := range list {
		list[i].known, list[i].knownBit = &b.known[i/64], 1<<(i%64)
		if b.copied != nil {
			list[i].copied = &b.copied[i]
		}
		to := from
		for all[to] != 0 {
			to++
		}
		list[i].name, list[i].terminated = all[from:to], all[from:to+1]
		from = to + 1
	}
	return list
}

// firstName returns the name of the first entry.
func (b *block) firstName() []byte {
	u := unpacker{b.data}
	u.unsigned()
	length := int(u.unsigned())
	return u.data[:length]
}

const (
	sameDev      = 1 << iota // as the previous entry
	sameMode                 // as the previous entry
	sameOwner                // as the previous entry
	oneLink                  // nlink is 1
	sameTimes                // ctime is mtime
	noNanosMtime             // the nanoseconds of mtime are 0
)

// packer collects the entries of a directory in blocks. Entries come in the order of their names.
type packer struct {
	blocks   []block
	now      block
	last     meta
	lastName []byte

	newest       unixTime // the latest change time
	hasBig       bool     // there is a big file
	files, bytes int64    // entries that are not directories, and their data
}

// add adds an entry.
func (p *packer) add(name string, m *meta, sub *dir) {
	if p.now.count == blockEntries {
		p.finish()
	}
	shared := 0
	for shared < min(len(name), len(p.lastName)) && name[shared] == p.lastName[shared] {
		shared++
	}
	b := binary.AppendUvarint(p.now.data, uint64(shared))
	b = binary.AppendUvarint(b, uint64(len(name)-shared))
	b = append(b, name[shared:]...)
	p.now.data = appendMeta(b, m, &p.last)
	p.now.count++
	p.now.text += len(name) + 1
	if sub != nil {
		p.now.subs = append(p.now.subs, sub)
	}
	p.last, p.lastName = *m, append(p.lastName[:0], name...)
}

// finish ends the current block.
func (p *packer) finish() {
	if p.now.count == 0 {
		return
	}
	exact := p.now
	exact.data = append(make([]byte, 0, len(exact.data)), exact.data...)
	p.blocks = append(p.blocks, exact)
	p.now, p.last, p.lastName = block{data: p.now.data[:0]}, meta{}, p.lastName[:0]
}

func appendMeta(b []byte, m, last *meta) []byte {
	at := len(b)
	flags := byte(0)
	b = append(b, 0)
	number := func(n uint32, flag byte, left bool) {
		if left {
			flags |= flag
		} else {
			b = binary.AppendUvarint(b, uint64(n))
		}
	}
	number(m.dev, sameDev, m.dev == last.dev)
	number(m.mode, sameMode, m.mode == last.mode)
	number(m.uid, sameOwner, m.uid == last.uid && m.gid == last.gid)
	if flags&sameOwner == 0 {
		b = binary.AppendUvarint(b, uint64(m.gid))
	}
	number(m.nlink, oneLink, m.nlink == 1)
	b = binary.AppendVarint(b, int64(m.ino-last.ino))
	b = binary.AppendUvarint(b, uint64(m.size))
	b = binary.AppendVarint(b, m.mtimeSec-last.mtimeSec)
	if m.mtimeNsec == 0 {
		flags |= noNanosMtime
	} else {
		b = binary.LittleEndian.AppendUint32(b, m.mtimeNsec)
	}
	if m.ctime() == m.mtime() {
		flags |= sameTimes
	} else {
		b = binary.AppendVarint(b, m.ctimeSec-m.mtimeSec)
		b = binary.LittleEndian.AppendUint32(b, m.ctimeNsec)
	}
	b[at] = flags
	return b
}

// unpacker reads the numbers of a block.
type unpacker struct{ data []byte }

func (u *unpacker) unsigned() uint64 {
	n, size := binary.Uvarint(u.data)
	u.data = u.data[size:]
	return n
}

func (u *unpacker) signed() int64 {
	n, size := binary.Varint(u.data)
	u.data = u.data[size:]
	return n
}

func (u *unpacker) fixed() uint32 {
	n := binary.LittleEndian.Uint32(u.data)
	u.data = u.data[4:]
	return n
}

func (u *unpacker) meta(last *meta) meta {
	m := *last
	flags := u.data[0]
	u.data = u.data[1:]
	if flags&sameDev == 0 {
		m.dev = uint32(u.unsigned())
	}
	if flags&sameMode == 0 {
		m.mode = uint32(u.unsigned())
	}
	if flags&sameOwner == 0 {
		m.uid = uint32(u.unsigned())
		m.gid = uint32(u.unsigned())
	}
	m.nlink = 1
	if flags&oneLink == 0 {
		m.nlink = uint32(u.unsigned())
	}
	m.ino += uint64(u.signed())
	m.size = int64(u.unsigned())
	m.mtimeSec += u.signed()
	m.mtimeNsec = 0
	if flags&noNanosMtime == 0 {
		m.mtimeNsec = u.fixed()
	}
	m.ctimeSec, m.ctimeNsec = m.mtimeSec, m.mtimeNsec
	if flags&sameTimes == 0 {
		m.ctimeSec += u.signed()
		m.ctimeNsec = u.fixed()
	}
	return m
}

var entryBuffers bufferPool[[blockEntries]entry]
