//go:build linux

package mover

import (
	"encoding/binary"
	"sort"
)

// inodeSet is a set of inode numbers. Numbers that follow each other take one byte each.
type inodeSet struct {
	firsts  []uint64 // the first number of each group of setGroup numbers
	offsets []int    // where the differences of a group begin
	data    []byte   // differences to the previous number
	count   int
	last    uint64
}

const setGroup = 64

// add adds a number that is larger than all others.
func (s *inodeSet) add(ino uint64) {
	if s.count%setGroup == 0 {
		s.firsts, s.offsets = append(s.firsts, ino), append(s.offsets, len(s.data))
	} else {
		s.data = binary.AppendUvarint(s.data, ino-s.last)
	}
	s.count++
	s.last = ino
}

func (s *inodeSet) contains(ino uint64) bool {
	g := sort.Search(len(s.firsts), func(i int) bool { return s.firsts[i] > ino }) - 1
	if g < 0 {
		return false
	}
	at, data := s.firsts[g], s.data[s.offsets[g]:]
	for k := 1; at < ino && k < setGroup && len(data) > 0; k++ {
		d, n := binary.Uvarint(data)
		at, data = at+d, data[n:]
	}
	return at == ino
}
