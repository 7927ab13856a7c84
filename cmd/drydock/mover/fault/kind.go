//go:build linux

// Package fault has the errors of the mover: what went wrong with which entry of which side, and what follows from it.
package fault

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"golang.org/x/sys/unix"
)

// Fault is an error with one entry.
type Fault struct {
	Side Side
	op   string // gerund: "opening", "setting the owner 12:34"
	Path string // relative to the root, raw bytes
	err  error
}

// New returns an error with one entry. Its arguments are those of a fault.
func New(side Side, op, path string, err error) *Fault { return &Fault{side, op, path, err} }

func (f *Fault) Error() string {
	return fmt.Sprintf("%s %s of the %s: %v", f.op, Quote(f.Path), f.Side, f.err)
}

func (f *Fault) Unwrap() error { return f.err }

// Quote makes a path printable. It cuts a very long one in the middle, so that the message stays readable.
func Quote(path string) string {
	const most = 600
	if path == "" {
		path = "."
	}
	if len(path) > most {
		return strconv.Quote(path[:most/2]) + "..." + strconv.Quote(path[len(path)-most/2:])
	}
	return strconv.Quote(path)
}

// Operations that need an inode.
const (
	OpCreating = "creating"
	OpMaking   = "making the directory"
)

// Errors without an errno.
var (
	ErrChanged       = errors.New("it changed during the copy")
	ErrMountHere     = errors.New("another file system is mounted here, which is not part of the volume")
	ErrXattrTooLarge = errors.New("this file system cannot hold it")
	ErrDropped       = errors.New("the kernel dropped the set-id bits")
	ErrOwnName       = errors.New("the mover reserves this name; rename the entry")
	ErrNotSeparate   = errors.New("source and target are the same directory, or one is inside the other")
	ErrNotKept       = errors.New("the target does not store them")
	ErrMismatch      = errors.New("mismatch")
)

// Kind classifies errors by their consequence.
type Kind int

const (
	KindIO      Kind = iota // ends the run
	KindNoSpace             // ends the run
	KindStopped             // the context was cancelled
	KindChanged             // collected: the source changed after the scan
	KindDenied              // collected: this process cannot reproduce it on this target
	KindDiffers             // collected: verification found a difference
	kinds
)

// collected reports whether the run continues, to find all problems of this kind.
func (k Kind) collected() bool { return k >= KindChanged }

// deniedErrors need more rights or another target. A retry does not help.
var deniedErrors = []error{
	fs.ErrPermission, // EPERM, EACCES
	unix.EOPNOTSUPP, unix.EMLINK, unix.ENAMETOOLONG, unix.EFBIG, unix.EOVERFLOW, unix.EILSEQ, unix.E2BIG,
	ErrMountHere, ErrDropped, ErrXattrTooLarge, ErrOwnName, ErrNotKept,
}

// KindOf classifies an error. A name that vanished from the source is a change. A name that vanished from the target is
// an I/O error.
func KindOf(err error) Kind {
	var f *Fault
	fromSource := errors.As(err, &f) && f.Side == Source
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.As(err, new(*Interruption)):
		return KindStopped
	case errors.Is(err, ErrMismatch):
		return KindDiffers
	case errors.Is(err, ErrChanged):
		return KindChanged
	case fromSource && IsAny(err, unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.ENXIO, unix.ENODATA):
		return KindChanged
	case fromSource && IsAny(err, unix.EAGAIN): // its writer has a lease, and was asked to give it up (fcntl(2), F_SETLEASE)
		return KindChanged
	case IsAny(err, unix.ENOSPC, unix.EDQUOT):
		return KindNoSpace
	case IsAny(err, deniedErrors...):
		return KindDenied
	}
	return KindIO
}

func IsAny(err error, targets ...error) bool {
	for _, t := range targets {
		if errors.Is(err, t) {
			return true
		}
	}
	return false
}

// Mismatch returns an error that says what differs.
func Mismatch(what string) error { return fmt.Errorf("%w: %s", ErrMismatch, what) }

// IsStale reports whether a network file system lost a source file because another process deleted it.
func IsStale(err error) bool {
	var f *Fault
	return errors.As(err, &f) && f.Side == Source && errors.Is(err, unix.ESTALE)
}

// IfGone turns the error into a mismatch if a name is missing in the target or has another type there. That is not an
// I/O error.
func IfGone(s Side, err error) error {
	if s == Target && IsAny(err, unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.ENXIO) {
		return fmt.Errorf("%w: %w", ErrMismatch, err)
	}
	return err
}

// IsDifference reports whether a comparison failed because the target differs.
func IsDifference(err error) bool {
	return KindOf(err) == KindDiffers || errors.Is(err, ErrNotKept)
}

// Side distinguishes the two trees, in messages and where errors have different meanings.
type Side int

const (
	Source Side = iota
	Target
)

func (s Side) String() string { return [...]string{"source", "target"}[s] }
