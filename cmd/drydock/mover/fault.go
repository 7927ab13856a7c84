//go:build linux

package mover

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"drydock.dev/shared/moverreport"
)

// Error is the type of every error that this package returns.
type Error struct {
	Code    int // the exit code
	Reason  moverreport.Reason
	Message string   // what happened, where, and what to do
	Paths   []string // the first problems, a sentence with a quoted path each; nil unless problems were collected
	Count   int      // number of problems
	Err     error    // may be nil
}

func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// newError returns the error for collected problems.
func newError(k kind, count int, first []string) *Error {
	e := &Error{Count: count, Paths: first}
	var what, todo string
	switch k {
	case kindChanged:
		e.Code, e.Reason = moverreport.CodeSourceChanged, moverreport.ReasonSourceChanged
		what, todo = "changed in the source during the copy", "Stop the process that writes to the source, then copy again"
	case kindDenied:
		e.Code, e.Reason = moverreport.CodeNotFaithful, moverreport.ReasonNotFaithful
		what, todo = "cannot be reproduced", rightsAdvice()
	default:
		e.Code, e.Reason = moverreport.CodeMismatch, moverreport.ReasonMismatch
		what, todo = "differ after the copy", "Copy again to replace them. If it happens again, do not trust the target"
	}
	e.Message = fmt.Sprintf("%s %s. First: %s. %s", countOf(count), what, first[0], todo)
	return e
}

// rightsAdvice returns the advice for NotFaithful. It does not ask for rights that this process has.
func rightsAdvice() string {
	if hasCapability(unix.CAP_DAC_OVERRIDE) && hasCapability(unix.CAP_CHOWN) {
		return "This process has root's rights: remove the cause, or choose a target that can hold the entries. " +
			"An NFS export with root_squash takes these rights away"
	}
	return "Run the copy as root with CHOWN, DAC_OVERRIDE, FOWNER, FSETID, SETFCAP and MKNOD, or choose a target that can hold the entries"
}

// adviseSELinux replaces the advice, because more rights do not help against SELinux.
func adviseSELinux(e *Error, context string) {
	e.Reason = moverreport.ReasonSELinux
	e.Message = fmt.Sprintf("%s cannot be read. First: %s. Mode and owner allow it, so SELinux is the likely cause: this process runs as %s. "+
		"Set seLinuxOptions.level in the pod template's securityContext to the level of the files (ls -Z)",
		countOf(e.Count), e.Paths[0], context)
}

func countOf(n int) string {
	if n == 1 {
		return "1 entry"
	}
	return fmt.Sprintf("%d entries", n)
}

// toError adds code, reason and advice to an error that ended the run. It returns nil for nil.
func toError(err error, dst *root) *Error {
	var known *Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return known
	case errors.Is(err, errNotSeparate):
		return usageError(err)
	}
	switch kindOf(err) {
	case kindStopped:
		return stoppedError(err)
	case kindNoSpace:
		return noSpaceError(err, dst)
	case kindChanged, kindDenied, kindDiffers:
		return newError(kindOf(err), 1, []string{err.Error()})
	}
	return &Error{Code: moverreport.CodeIO, Reason: moverreport.ReasonIOError, Err: err,
		Message: err.Error() + ". See the logs of the node and of the storage. A retry resumes the copy"}
}

func usageError(err error) *Error {
	return &Error{Code: moverreport.CodeUsage, Reason: moverreport.ReasonUsage, Err: err, Message: err.Error()}
}

func stoppedError(err error) *Error {
	e := &Error{Code: moverreport.CodeTerminated, Reason: moverreport.ReasonInterrupted, Err: err,
		Message: fmt.Sprintf("stopped before the end (%v). A retry resumes the copy", err)}
	var i *Interruption
	if errors.As(err, &i) {
		e.Code = i.code()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		e.Message = "stopped at its deadline. A retry resumes the copy"
	}
	return e
}

// noSpaceError says which of space, inodes and quota ran out, as far as the target reports it.
func noSpaceError(err error, dst *root) *Error {
	e := &Error{Code: moverreport.CodeNoSpace, Reason: moverreport.ReasonNoSpace, Err: err}
	var st unix.Statfs_t
	switch {
	case errors.Is(err, unix.EDQUOT):
		e.Reason = moverreport.ReasonQuota
		e.Message = fmt.Sprintf("the quota on the target is used up: %v. Raise it, then copy again to resume", err)
	case dst != nil && unix.Fstatfs(dst.fd, &st) == nil && needsInode(err) && inodesAreScarcer(&st):
		e.Message = fmt.Sprintf("the target has no inodes left (of %d): %v. Make it larger or create it with more inodes, then copy again",
			st.Files, err)
	default:
		e.Message = fmt.Sprintf("the target is full (%s in total): %v. Make it larger, then copy again to resume",
			moverreport.Size(int64(st.Blocks)*st.Bsize), err)
	}
	return e
}

// needsInode reports whether the failed call creates an entry. Writing to a file takes blocks only.
func needsInode(err error) bool {
	var f *fault
	return errors.As(err, &f) && (f.op == opCreating || f.op == opMaking)
}

// inodesAreScarcer reports whether inodes ran out rather than blocks. Neither number need be zero by now, because the
// other workers have removed their unfinished files. A file system that creates inodes on demand, such as btrfs, reports
// none.
func inodesAreScarcer(st *unix.Statfs_t) bool {
	return float64(st.Ffree)*float64(st.Blocks) < float64(st.Bfree)*float64(st.Files)
}

// rootError turns a root that is missing or is not a directory into a usage error.
func rootError(err error) error {
	if isAny(err, unix.ENOENT, unix.ENOTDIR, unix.ELOOP) {
		return usageError(err)
	}
	return err
}

// fault is an error with one entry.
type fault struct {
	side side
	op   string // gerund: "opening", "setting the owner 12:34"
	path string // relative to the root, raw bytes
	err  error
}

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

// Interruption is the cause of a context that was cancelled because a signal asked the process to end.
type Interruption struct{ Signal os.Signal }

func (i *Interruption) Error() string { return "signal: " + i.Signal.String() }

// code returns 130 for SIGINT and 143 for all other signals.
func (i *Interruption) code() int {
	if i.Signal == syscall.SIGINT {
		return moverreport.CodeInterrupted
	}
	return moverreport.CodeTerminated
}

// side distinguishes the two trees, in messages and where errors have different meanings.
type side int

const (
	source side = iota
	target
)

func (s side) String() string { return [...]string{"source", "target"}[s] }
