//go:build linux

package mover

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"drydock.dev/shared/moverreport"
)

// Error is how every failure of this package looks to its caller.
type Error struct {
	Code    int                // one of the exit codes
	Reason  moverreport.Reason //
	Message string             // what happened, where, and what to do
	Paths   []string           // the first problems, a sentence each with a quoted path; nil unless problems were collected
	Count   int                // how many problems there were
	Err     error              // may be nil
}

func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Interruption is the cause with which a context is cancelled when a signal asked the process to end.
type Interruption struct{ Signal os.Signal }

func (i *Interruption) Error() string { return "signal: " + i.Signal.String() }

// code is 130 for SIGINT and 143 for all others.
func (i *Interruption) code() int {
	if i.Signal == syscall.SIGINT {
		return moverreport.CodeInterrupted
	}
	return moverreport.CodeTerminated
}

// newError speaks of collected problems.
func newError(k kind, count int, first []string) *Error {
	e := &Error{Count: count, Paths: first}
	var what, todo string
	switch k {
	case kindChanged:
		e.Code, e.Reason = moverreport.CodeSourceChanged, moverreport.ReasonSourceChanged
		what, todo = "were changed in the source during the copy", "stop what writes to the source, then copy again"
	case kindDenied:
		e.Code, e.Reason = moverreport.CodeNotFaithful, moverreport.ReasonNotFaithful
		what, todo = "cannot be reproduced", howToReproduce()
	default:
		e.Code, e.Reason = moverreport.CodeMismatch, moverreport.ReasonMismatch
		what, todo = "differ after the copy", "copy again, which replaces them; if it happens again, do not trust the target"
	}
	e.Message = fmt.Sprintf("%s %s; the first: %s; %s", countOf(count), what, first[0], todo)
	return e
}

// howToReproduce returns the advice for NotFaithful: not to get rights that this process has.
func howToReproduce() string {
	if hasCapability(unix.CAP_DAC_OVERRIDE) && hasCapability(unix.CAP_CHOWN) {
		return "this process has root's rights, so mend the cause, or choose a target that can hold it; " +
			"an NFS export with root_squash takes these rights away"
	}
	return "run the copy as root with CHOWN, DAC_OVERRIDE, FOWNER, FSETID, SETFCAP and MKNOD, or choose a target that can hold them"
}

// blameSELinux replaces the advice: more rights do not help.
func blameSELinux(e *Error, context string) {
	e.Reason = moverreport.ReasonSELinux
	e.Message = fmt.Sprintf("%s cannot be read, the first: %s; mode and owner allow it, so SELinux is the likely cause: "+
		"this process runs as %s; set seLinuxOptions.level in the pod template's securityContext to the level of the files (ls -Z)", countOf(e.Count), e.Paths[0], context)
}

func countOf(n int) string {
	if n == 1 {
		return "1 entry"
	}
	return fmt.Sprintf("%d entries", n)
}

// toError gives an error that ended the run its code, reason and advice. nil stays nil.
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
		return stopped(err)
	case kindNoSpace:
		return noSpace(err, dst)
	case kindChanged, kindDenied, kindDiffers:
		return newError(kindOf(err), 1, []string{err.Error()})
	}
	return &Error{Code: moverreport.CodeIO, Reason: moverreport.ReasonIOError, Err: err,
		Message: err.Error() + "; look at the node's and the storage's logs; another try resumes"}
}

func usageError(err error) *Error {
	return &Error{Code: moverreport.CodeUsage, Reason: moverreport.ReasonUsage, Err: err, Message: err.Error()}
}

func stopped(err error) *Error {
	e := &Error{Code: moverreport.CodeTerminated, Reason: moverreport.ReasonInterrupted, Err: err,
		Message: fmt.Sprintf("stopped before the end (%v); another try resumes", err)}
	var i *Interruption
	if errors.As(err, &i) {
		e.Code = i.code()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		e.Message = "stopped at its deadline; another try resumes"
	}
	return e
}

// noSpace says which of space, inodes and quota ran out, as far as the target tells.
func noSpace(err error, dst *root) *Error {
	e := &Error{Code: moverreport.CodeNoSpace, Reason: moverreport.ReasonNoSpace, Err: err}
	var st unix.Statfs_t
	switch {
	case errors.Is(err, unix.EDQUOT):
		e.Reason = moverreport.ReasonQuota
		e.Message = fmt.Sprintf("the quota on the target is used up: %v; raise it, then copy again, which resumes", err)
	case dst != nil && unix.Fstatfs(dst.fd, &st) == nil && needsInode(err) && inodesAreScarcer(&st):
		e.Message = fmt.Sprintf("the target has no inodes left (of %d): %v; make it larger or with more inodes, then copy again", st.Files, err)
	default:
		e.Message = fmt.Sprintf("the target is full (%d bytes in all): %v; make it larger, then copy again, which resumes", int64(st.Blocks)*st.Bsize, err)
	}
	return e
}

// needsInode reports whether what failed makes a new entry: writing to a file takes blocks only.
func needsInode(err error) bool {
	var f *fault
	return errors.As(err, &f) && (f.op == opCreating || f.op == opMaking)
}

// inodesAreScarcer tells which of inodes and blocks ran out. Neither has to be at zero any more: the other workers have
// removed the files that they had begun. A file system that makes inodes as it needs them, as btrfs, counts none.
func inodesAreScarcer(st *unix.Statfs_t) bool {
	return float64(st.Ffree)*float64(st.Blocks) < float64(st.Bfree)*float64(st.Files)
}
