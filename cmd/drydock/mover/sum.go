//go:build linux

package mover

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
)

// sum is a SHA-256 hash.
type sum = [sha256.Size]byte

// writeInt adds the number to the hash, as 8 bytes in big endian.
func writeInt(h hash.Hash, n int64) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(n))
	h.Write(b[:])
}

// writeString adds the length of the string and its bytes to the hash.
func writeString(h hash.Hash, s string) {
	writeInt(h, int64(len(s)))
	h.Write([]byte(s))
}
