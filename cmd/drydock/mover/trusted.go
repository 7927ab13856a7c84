//go:build linux

package mover

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// trustedFiles counts files that were not read, because an earlier pass verified them.
type trustedFiles struct{ files, bytes int64 }

// addTo adds the counts to those of the run. Workers would wait for each other if each file did that.
func (t *trustedFiles) addTo(s *treeHasher) {
	if t.files > 0 {
		s.meter.bytes.Add(t.bytes)
		s.trusted(t.files, t.bytes)
	}
}

// readTrusted returns the record of a file that an earlier pass verified, with one stat on each side. The record is that of
// both sides. It returns false for all other entries, and for each entry with a difference: readEntry reads and reports it.
//
// Both inodes look as they did when all their attributes and contents were compared. A file without extended attributes
// then has none now, because adding one changes ctime.
func (s *treeHasher) readTrusted(fds []int, e *entry, seen *trustedFiles) (sum, bool) {
	if s.verified == nil || len(fds) < 2 || !e.meta.isRegular() || e.meta.nlink != 1 {
		return sum{}, false
	}
	have, err := statIn(fds[target], e)
	if err != nil {
		return sum{}, false
	}
	k, ok := s.verified(e, have.meta)
	if !ok || !k.plain || have.meta.nlink != 1 || !sameAttributes(&e.meta, &have.meta) {
		return sum{}, false
	}
	if !s.sourceKnown {
		if now, err := statIn(fds[source], e); err != nil || now.meta != e.meta {
			return sum{}, false
		}
	}
	seen.files++
	seen.bytes += have.data
	have.content = k.content
	return have.record(e.name), true
}

// statIn returns the attributes of an entry from a block, in an open directory.
func statIn(dirfd int, e *entry) (snapshot, error) {
	var x unix.Statx_t
	if err := statTerminated(dirfd, unsafe.StringData(e.terminated), &x); err != nil {
		return snapshot{}, err
	}
	st := fileStatOf(&x)
	return snapshot{meta: metaOf(&st.Stat_t), data: dataBytes(&st.Stat_t)}, nil
}
