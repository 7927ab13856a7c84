//go:build linux

package mover

import (
	"fmt"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// treeHasher reads a scanned tree on one side or on both. It computes the content hash of each root directory and
// compares the sides.
type treeHasher struct {
	tree     *tree
	sides    []*root // the source, and optionally the target
	meter    *meter
	problems *problems
	content  [2]sum

	isOwnName        func(d *dir, name string) bool                      // names in the target that belong to the mover; may be nil
	verifiedContents func(d *dir, e *entry, have *meta) (c sum, ok bool) // contents known from an earlier pass; may be nil
	trusted          func(g *group, e *entry, bytes int64)               // called for files that were not read because of that
	effort           *effort                                             // may be nil
	limit            *Limiter                                            // may be nil
}

// node is a directory whose entries are being read.
type node struct {
	dir       *dir
	up        *node
	index     int // of this directory in up
	pending   atomic.Int32
	snapshots [2]snapshot
	records   [2][]sum // of its entries
}

// ifGone turns the error into a mismatch if a name is missing in the target or has another type there. That is not an
// I/O error.
func ifGone(s side, err error) error {
	if s == target && isAny(err, unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.ENXIO) {
		return fmt.Errorf("%w: %w", errMismatch, err)
	}
	return err
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// inSequence calls f for n sides, one after the other.
func inSequence(n int, f func(side int) error) error {
	for k := range n {
		if err := f(k); err != nil {
			return err
		}
	}
	return nil
}

// inParallel calls f for both sides at once. An error of the source takes precedence, because an error of the target may
// follow from it.
func inParallel(f func(side int) error) error {
	failed := make(chan error, 1)
	go func() { failed <- f(int(target)) }()
	err := f(int(source))
	if other := <-failed; err == nil {
		err = other
	}
	return err
}

// knownContents returns the contents of an entry that need not be read, or nil.
func (s *treeHasher) knownContents(d *dir, e *entry, g *group, both [2]snapshot) *sum {
	if s.verifiedContents == nil {
		return nil
	}
	content, ok := s.verifiedContents(d, e, &both[target].meta)
	if !ok {
		return nil
	}
	s.meter.bytes.Add(both[target].data)
	s.trusted(g, e, both[source].data)
	return &content
}
