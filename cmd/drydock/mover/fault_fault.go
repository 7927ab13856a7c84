//go:build linux

package mover

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"golang.org/x/sys/unix"
)

// fault is an error with one entry.
type fault struct {
	side side
	op   string // gerund: "opening", "setting the owner 12:34"
	path string // relative to the root, raw bytes
	err  error
}

// newFault returns an error with one entry. Its arguments are those of a fault.
func newFault(side side, op, path string, err error) *fault { return &fault{side, op, path, err} }

func (f *fault) Error() string {
	return fmt.Sprintf("%s %s of the %s: %v", f.op, quote(f.path), f.side, f.err)
}

func (f *fault) Unwrap() error { return f.err }

// quote makes a path printable. It cuts a very long one in the middle, so that the message stays readable.
func quote(path string) string {
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
	opCreating = "creating"
	opMaking   = "making the directory"
)

// Errors without an errno.
var (
	errChanged       = errors.New("it changed during the copy")
	errMountHere     = errors.New("another file system is mounted here, which is not part of the volume")
	errXattrTooLarge = errors.New("this file system cannot hold it")
	errDropped       = errors.New("the kernel dropped the set-id bits")
	errOwnName       = errors.New("the mover reserves this name; rename the entry")
	errNotKept       = errors.New("the target does not store them")
	errMismatch      = errors.New("mismatch")
)

// kind classifies errors by their consequence.
type kind int

const (
	kindIO      kind = iota // ends the run
	kindNoSpace             // ends the run
	kindStopped             // the context was cancelled
	kindChanged             // collected: the source changed after the scan
	kindDenied              // collected: this process cannot reproduce it on this target
	kindDiffers             // collected: verification found a difference
	kinds
)

// collected reports whether the run continues, to find all problems of this kind.
func (k kind) collected() bool { return k >= kindChanged }

// deniedErrors need more rights or another target. A retry does not help.
var deniedErrors = []error{
	fs.ErrPermission, // EPERM, EACCES
	unix.EOPNOTSUPP, unix.EMLINK, unix.ENAMETOOLONG, unix.EFBIG, unix.EOVERFLOW, unix.EILSEQ, unix.E2BIG,
	errMountHere, errDropped, errXattrTooLarge, errOwnName, errNotKept,
}

// kindOf classifies an error. A name that vanished from the source is a change. A name that vanished from the target is
// an I/O error.
func kindOf(err error) kind {
	var f *fault
	fromSource := errors.As(err, &f) && f.side == source
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.As(err, new(*Interruption)):
		return kindStopped
	case errors.Is(err, errMismatch):
		return kindDiffers
	case errors.Is(err, errChanged):
		return kindChanged
	case fromSource && isAny(err, unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.ENXIO, unix.ENODATA):
		return kindChanged
	case fromSource && isAny(err, unix.EAGAIN): // its writer has a lease, and was asked to give it up (fcntl(2), F_SETLEASE)
		return kindChanged
	case isAny(err, unix.ENOSPC, unix.EDQUOT):
		return kindNoSpace
	case isAny(err, deniedErrors...):
		return kindDenied
	}
	return kindIO
}

func isAny(err error, targets ...error) bool {
	for _, t := range targets {
		if errors.Is(err, t) {
			return true
		}
	}
	return false
}

// mismatch returns an error that says what differs.
func mismatch(what string) error { return fmt.Errorf("%w: %s", errMismatch, what) }

// isStale reports whether a network file system lost a source file because another process deleted it.
func isStale(err error) bool {
	var f *fault
	return errors.As(err, &f) && f.side == source && errors.Is(err, unix.ESTALE)
}

// ifGone turns the error into a mismatch if a name is missing in the target or has another type there. That is not an
// I/O error.
func ifGone(s side, err error) error {
	if s == target && isAny(err, unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.ENXIO) {
		return fmt.Errorf("%w: %w", errMismatch, err)
	}
	return err
}

// isDifference reports whether a comparison failed because the target differs.
func isDifference(err error) bool {
	return kindOf(err) == kindDiffers || errors.Is(err, errNotKept)
}

// side distinguishes the two trees, in messages and where errors have different meanings.
type side int

const (
	source side = iota
	target
)

func (s side) String() string { return [...]string{"source", "target"}[s] }
