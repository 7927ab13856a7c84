//go:build linux

package mover

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"drydock.dev/shared/moverreport"
	"golang.org/x/sys/unix"
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
