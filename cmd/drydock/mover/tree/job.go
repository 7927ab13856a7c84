//go:build linux

package tree

import (
	"errors"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/fault"
	"drydock.dev/cmd/drydock/mover/fsys"
	"drydock.dev/cmd/drydock/mover/progress"
)

// Job is what the steps of a copy share.
type Job struct {
	Src, Dst *fsys.Root
	Tree     *Tree // nil before the scan
	Pass     Pass
	Workers  int
	Limit    *progress.Limiter // may be nil
	Meter    *progress.Meter
	Problems *fault.Problems

	Done counts
}

// counts are what a copy has done, see Result.
type counts struct{ Bytes, Files, Skipped, Deleted atomic.Int64 }

// Pass is the kind of a copy.
type Pass int

// A volume is copied either in one pass, or in any number of first passes and then one final pass.
const (
	PassWhole Pass = iota // nothing writes to the source
	PassFirst             // the source is in use: entries that change are tolerated, all others are verified and recorded
	PassFinal             // nothing writes to the source: recorded entries that have not changed are not read again
)

// Pair is a directory that is open on both sides.
type Pair struct {
	Dir      *Dir
	Src, Dst int
}

func (j *Job) OpenPair(d *Dir) (Pair, error) {
	src, err := j.Src.Open(d.Path())
	if err != nil {
		return Pair{}, fault.New(fault.Source, "opening the directory", d.Path(), err)
	}
	dst, err := j.Dst.Open(d.Path())
	if err != nil {
		unix.Close(src)
		return Pair{}, fault.New(fault.Target, "opening the directory", d.Path(), err)
	}
	return Pair{d, src, dst}, nil
}

func (p Pair) Close() {
	unix.Close(p.Src)
	unix.Close(p.Dst)
}

// Fault returns an error with an entry of the pair.
func (p Pair) Fault(s fault.Side, op string, e *Entry, err error) error {
	return fault.New(s, op, p.Dir.Join(e.Name), err)
}

// NoteChange marks the directory of an entry whose copy failed because the source changed. Such a change shows in the stat of the entry,
// so the verification does not compare the entry. The exceptions have another error: a directory that was renamed for a while, a lease, or
// a stale handle of a network file system.
func (j *Job) NoteChange(d *Dir, err error) {
	if j.Pass != PassFirst || err == nil {
		return
	}
	if fault.KindOf(err) == fault.KindChanged && !errors.Is(err, fault.ErrChanged) || fault.IsStale(err) {
		d.Unread.Store(true)
	}
}

// IsBig reports whether a file is compared and written by blocks.
func (j *Job) IsBig(e *Entry) bool {
	return j.Pass != PassWhole && e.Meta.IsRegular() && e.Meta.Size >= BigFileMin
}
