//go:build linux

package mover

import (
	"crypto/sha256"
	"encoding/binary"
)

// snapshot holds everything that a digest and a comparison use of an entry.
type snapshot struct {
	meta    meta
	data    int64  // estimated bytes outside of holes
	flags   uint32 // inode flags that both sides can have; 0 for entries that are not opened; not in the digest
	link    string
	content sum
	attrs   []xattr
}

// record returns the record of an entry, as described at Digest.
func (l *snapshot) record(name string) sum {
	b := make([]byte, 0, 256)
	number := func(n int64) { b = binary.BigEndian.AppendUint64(b, uint64(n)) }
	text := func(s string) { number(int64(len(s))); b = append(b, s...) }
	text(name)
	number(int64(l.meta.kind() | l.meta.permissions()))
	number(int64(l.meta.uid))
	number(int64(l.meta.gid))
	number(l.meta.size)
	number(l.meta.mtimeSec)
	number(int64(l.meta.mtimeNsec))
	text(l.link)
	b = append(b, l.content[:]...)
	number(int64(len(l.attrs)))
	for _, x := range l.attrs {
		text(x.name)
		text(string(x.value))
	}
	return sha256.Sum256(b)
}
