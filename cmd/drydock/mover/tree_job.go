//go:build linux

package mover

import (
	"errors"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// job is what the steps of a copy share.
type job struct {
	src, dst *root
	tree     *tree // nil before the scan
	pass     Pass
	workers  int
	limit    *Limiter // may be nil
	meter    *meter
	problems *problems

	done counts
}

// counts are what a copy has done, see Result.
type counts struct{ bytes, files, skipped, deleted atomic.Int64 }

// Pass is the kind of a copy.
type Pass int

// A volume is copied either in one pass, or in any number of first passes and then one final pass.
const (
	PassWhole Pass = iota // nothing writes to the source
	PassFirst             // the source is in use: entries that change are tolerated, all others are verified and recorded
	PassFinal             // nothing writes to the source: recorded entries that have not changed are not read again
)

// pair is a directory that is open on both sides.
type pair struct {
	dir      *dir
	src, dst int
}

func (j *job) openPair(d *dir) (pair, error) {
	src, err := j.src.open(d)
	if err != nil {
		return pair{}, newFault(source, "opening the directory", d.path(), err)
	}
	dst, err := j.dst.open(d)
	if err != nil {
		unix.Close(src)
		return pair{}, newFault(target, "opening the directory", d.path(), err)
	}
	return pair{d, src, dst}, nil
}

func (p pair) close() {
	unix.Close(p.src)
	unix.Close(p.dst)
}

// fault returns an error with an entry of the pair.
func (p pair) fault(s side, op string, e *entry, err error) error {
	return newFault(s, op, p.dir.join(e.name), err)
}

// noteChange marks the directory of an entry whose copy failed because the source changed. Such a change shows in the stat of the entry,
// so the verification does not compare the entry. The exceptions have another error: a directory that was renamed for a while, a lease, or
// a stale handle of a network file system.
func (j *job) noteChange(d *dir, err error) {
	if j.pass == PassFirst && err != nil && (kindOf(err) == kindChanged && !errors.Is(err, errChanged) || isStale(err)) {
		d.unread.Store(true)
	}
}

// isBig reports whether a file is compared and written by blocks.
func (j *job) isBig(e *entry) bool {
	return j.pass != PassWhole && e.meta.isRegular() && e.meta.size >= bigFileMin
}
