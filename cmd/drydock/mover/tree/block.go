//go:build linux

package tree

import (
	"encoding/binary"
	"math/bits"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/fsys"
	"drydock.dev/cmd/drydock/mover/units"
)

// Block holds up to BlockEntries entries of a directory, sorted by name, in a compact form. Memory for millions of entries
// is scarce, and most of them are needed only twice: to compare and to verify.
//
// Each entry has the length of the prefix that its name shares with the previous name, the length of the rest, the rest, a
// byte of flags, and the fields of meta as differences from the previous entry. Fields are left out as the flags say.
type Block struct {
	data   []byte
	Subs   []*Dir // the subdirectories among the entries, in the same order
	Count  int
	text   int         // bytes of all names, with a NUL after each
	Copied []units.Sum // of each entry; nil if none is kept, see write.Files

	known [BlockEntries / 64]uint64 // a bit for each entry, see MarkKnown
}

// BlockEntries is the number of entries in a block. Longer blocks save little memory.
const BlockEntries = 128

// IsKnown reports whether all entries except directories are known.
func (b *Block) IsKnown() bool {
	n := len(b.Subs)
	for i := range b.known {
		n += bits.OnesCount64(atomic.LoadUint64(&b.known[i]))
	}
	return n == b.Count
}

// Unpack returns the entries of a block. It reuses buf, whose contents it overwrites.
func (b *Block) Unpack(buf []Entry) []Entry {
	list := buf[:0]
	var text strings.Builder
	text.Grow(b.text)
	u := unpacker{b.data}
	subs := b.Subs
	var last fsys.Meta
	begin := 0
	for range b.Count {
		shared, rest := int(u.unsigned()), int(u.unsigned())
		from := text.Len()
		text.WriteString(text.String()[begin : begin+shared])
		text.Write(u.data[:rest])
		text.WriteByte(0)
		u.data = u.data[rest:]
		begin, last = from, u.meta(&last)
		list = append(list, Entry{Meta: last})
		if last.Mode&unix.S_IFMT == unix.S_IFDIR {
			list[len(list)-1].Sub, subs = subs[0], subs[1:]
		}
	}
	all, from := text.String(), 0
	for i := range list {
		list[i].known, list[i].knownBit = &b.known[i/64], 1<<(i%64)
		if b.Copied != nil {
			list[i].Copied = &b.Copied[i]
		}
		to := from
		for all[to] != 0 {
			to++
		}
		list[i].Name, list[i].Terminated = all[from:to], all[from:to+1]
		from = to + 1
	}
	return list
}

// firstName returns the name of the first entry.
func (b *Block) firstName() []byte {
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
	blocks   []Block
	now      Block
	last     fsys.Meta
	lastName []byte

	newest       fsys.Time // the latest change time
	hasBig       bool      // there is a big file
	files, bytes int64     // entries that are not directories, and their data
}

// add adds an entry.
func (p *packer) add(name string, m *fsys.Meta, sub *Dir) {
	if p.now.Count == BlockEntries {
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
	p.now.Count++
	p.now.text += len(name) + 1
	if sub != nil {
		p.now.Subs = append(p.now.Subs, sub)
	}
	p.last, p.lastName = *m, append(p.lastName[:0], name...)
}

// finish ends the current block.
func (p *packer) finish() {
	if p.now.Count == 0 {
		return
	}
	exact := p.now
	exact.data = append(make([]byte, 0, len(exact.data)), exact.data...)
	p.blocks = append(p.blocks, exact)
	p.now, p.last, p.lastName = Block{data: p.now.data[:0]}, fsys.Meta{}, p.lastName[:0]
}

func appendMeta(b []byte, m, last *fsys.Meta) []byte {
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
	number(m.Dev, sameDev, m.Dev == last.Dev)
	number(m.Mode, sameMode, m.Mode == last.Mode)
	number(m.Uid, sameOwner, m.Uid == last.Uid && m.Gid == last.Gid)
	if flags&sameOwner == 0 {
		b = binary.AppendUvarint(b, uint64(m.Gid))
	}
	number(m.Nlink, oneLink, m.Nlink == 1)
	b = binary.AppendVarint(b, int64(m.Ino-last.Ino))
	b = binary.AppendUvarint(b, uint64(m.Size))
	b = binary.AppendVarint(b, m.MtimeSec-last.MtimeSec)
	if m.MtimeNsec == 0 {
		flags |= noNanosMtime
	} else {
		b = binary.LittleEndian.AppendUint32(b, m.MtimeNsec)
	}
	if m.Ctime() == m.Mtime() {
		flags |= sameTimes
	} else {
		b = binary.AppendVarint(b, m.CtimeSec-m.MtimeSec)
		b = binary.LittleEndian.AppendUint32(b, m.CtimeNsec)
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

func (u *unpacker) meta(last *fsys.Meta) fsys.Meta {
	m := *last
	flags := u.data[0]
	u.data = u.data[1:]
	if flags&sameDev == 0 {
		m.Dev = uint32(u.unsigned())
	}
	if flags&sameMode == 0 {
		m.Mode = uint32(u.unsigned())
	}
	if flags&sameOwner == 0 {
		m.Uid = uint32(u.unsigned())
		m.Gid = uint32(u.unsigned())
	}
	m.Nlink = 1
	if flags&oneLink == 0 {
		m.Nlink = uint32(u.unsigned())
	}
	m.Ino += uint64(u.signed())
	m.Size = int64(u.unsigned())
	m.MtimeSec += u.signed()
	m.MtimeNsec = 0
	if flags&noNanosMtime == 0 {
		m.MtimeNsec = u.fixed()
	}
	m.CtimeSec, m.CtimeNsec = m.MtimeSec, m.MtimeNsec
	if flags&sameTimes == 0 {
		m.CtimeSec += u.signed()
		m.CtimeNsec = u.fixed()
	}
	return m
}

var EntryBuffers fsys.BufferPool[[BlockEntries]Entry]
