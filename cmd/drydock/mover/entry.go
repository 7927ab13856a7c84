//go:build linux

package mover

import (
	"encoding/binary"
	"iter"
	"math/bits"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// meta is the part of an inode's stat that a copy uses. Two equal values, taken from the same inode at two times, prove
// that its contents and attributes did not change in between, because ctime cannot be set.
type meta struct {
	ino                  uint64
	dev                  uint32 // kernel device numbers have 32 bits
	size                 int64  // bytes of a regular file or a link's target; the device number of a device; else 0
	mtimeSec, ctimeSec   int64
	mtimeNsec, ctimeNsec uint32
	mode, uid, gid       uint32 // mode with the type bits
	nlink                uint32
}

func metaOf(st *unix.Stat_t) meta {
	m := meta{
		ino: st.Ino, dev: uint32(st.Dev),
		mtimeSec: st.Mtim.Sec, mtimeNsec: uint32(st.Mtim.Nsec),
		ctimeSec: st.Ctim.Sec, ctimeNsec: uint32(st.Ctim.Nsec),
		mode: st.Mode, uid: st.Uid, gid: st.Gid, nlink: uint32(st.Nlink),
	}
	switch m.kind() {
	case unix.S_IFREG, unix.S_IFLNK:
		m.size = st.Size
	case unix.S_IFCHR, unix.S_IFBLK:
		m.size = int64(st.Rdev)
	}
	return m
}

// inode identifies an inode. Numbers are unique within a device only: each btrfs subvolume has its own numbers.
type inode struct {
	dev uint32
	ino uint64
}

func (m *meta) inode() inode    { return inode{m.dev, m.ino} }
func (m *meta) kind() uint32    { return m.mode & unix.S_IFMT }
func (m *meta) isDir() bool     { return m.kind() == unix.S_IFDIR }
func (m *meta) isRegular() bool { return m.kind() == unix.S_IFREG }
func (m *meta) isSymlink() bool { return m.kind() == unix.S_IFLNK }

// permissions returns the mode without the type, or 0 for a symbolic link.
func (m *meta) permissions() uint32 {
	if m.isSymlink() {
		return 0
	}
	return m.mode &^ unix.S_IFMT
}

// times returns the times for utimensat, which leave the access time unchanged.
func (m *meta) times() []unix.Timespec {
	return []unix.Timespec{{Nsec: unix.UTIME_OMIT}, {Sec: m.mtimeSec, Nsec: int64(m.mtimeNsec)}}
}

// dataBytes estimates how many bytes of a regular file are outside of holes.
func dataBytes(st *unix.Stat_t) int64 {
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return 0
	}
	return min(st.Size, st.Blocks*512)
}

// entry is a name in a directory of the source.
type entry struct {
	name       string
	terminated string  // the name and a NUL, if the entry comes from a block
	sub        *dir    // nil unless it is a directory
	copied     *sum    // hash of what this pass has copied; nil if none is kept, see reserveCopiedSums
	known      *uint64 // of its block; nil if the entry does not come from a block
	knownBit   uint64
	meta       meta
}

// dir is a directory of the source. The package comment states its size.
type dir struct {
	parent   *dir        // nil for the root
	depth    int         // 0 for the root
	self     *entry      // the root's has the name ""
	blocks   []block     // the entries, sorted by name
	fresh    bool        // the target's directory was created, or found empty, by this run
	flags    uint32      // inode flags that are carried; after its preparation the root also has those of the target's root
	unread   atomic.Bool // see noteChange
	excluded bool        // later steps skip it: the target's directory cannot be used, for a collected reason
}

// count returns the number of entries.
func (d *dir) count() (n int) {
	for i := range d.blocks {
		n += d.blocks[i].count
	}
	return n
}

// exclude makes later steps skip a directory and everything below it.
func (d *dir) exclude() {
	d.excluded = true
	for sub := range d.subs() {
		sub.exclude()
	}
}

// path returns the path relative to the root, which is "" for the root itself.
func (d *dir) path() string {
	if d.parent == nil {
		return ""
	}
	var names []string
	length := 0
	for ; d.parent != nil; d = d.parent {
		names = append(names, d.self.name)
		length += len(d.self.name) + 1
	}
	var b strings.Builder
	b.Grow(length)
	for i := len(names) - 1; i >= 0; i-- {
		b.WriteString(names[i])
		if i > 0 {
			b.WriteByte('/')
		}
	}
	return b.String()
}

// join returns the path of a name in d.
func (d *dir) join(name string) string {
	if d.parent == nil {
		return name
	}
	return d.path() + "/" + name
}

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

// markKnown notes that an earlier pass verified a file and that this pass has found it unchanged on both sides. Nothing reads its contents.
func (e *entry) markKnown() { atomic.OrUint64(e.known, e.knownBit) }

func (e *entry) isKnown() bool { return e.known != nil && atomic.LoadUint64(e.known)&e.knownBit != 0 }

// isKnown reports whether all entries except directories are known.
func (b *block) isKnown() bool {
	n := len(b.subs)
	for i := range b.known {
		n += bits.OnesCount64(atomic.LoadUint64(&b.known[i]))
	}
	return n == b.count
}

// subs yields the subdirectories.
func (d *dir) subs() iter.Seq[*dir] {
	return func(yield func(*dir) bool) {
		for i := range d.blocks {
			for _, sub := range d.blocks[i].subs {
				if !yield(sub) {
					return
				}
			}
		}
	}
}

// blockEntries is the number of entries in a block. Longer blocks save little memory.
const blockEntries = 128

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
