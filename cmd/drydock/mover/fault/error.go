//go:build linux

package fault

import (
	"context"
	"errors"
	"fmt"
	"os"
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
func newError(k Kind, count int, first []string) *Error {
	e := &Error{Count: count, Paths: first}
	var what, todo string
	switch k {
	case KindChanged:
		e.Code, e.Reason = moverreport.CodeSourceChanged, moverreport.ReasonSourceChanged
		what, todo = "changed in the source during the copy", "Stop the process that writes to the source, then copy again"
	case KindDenied:
		e.Code, e.Reason = moverreport.CodeNotFaithful, moverreport.ReasonNotFaithful
		what, todo = "cannot be reproduced", rightsAdvice()
	default:
		e.Code, e.Reason = moverreport.CodeMismatch, moverreport.ReasonMismatch
		what, todo = "differ after the copy", "Copy again to replace them. If it happens again, do not trust the target"
	}
	e.Message = fmt.Sprintf("%s %s. First: %s. %s", CountOf(count), what, first[0], todo)
	return e
}

func CountOf(n int) string {
	if n == 1 {
		return "1 entry"
	}
	return fmt.Sprintf("%d entries", n)
}

// fileSystem is one whose space an error explains.
type fileSystem interface {
	Statfs() (unix.Statfs_t, error)
}

// ToError adds code, reason and advice to an error that ended the run. It returns nil for nil. dst may be nil.
func ToError(err error, dst fileSystem) *Error {
	var known *Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return known
	case errors.Is(err, ErrNotSeparate):
		return UsageError(err)
	}
	switch KindOf(err) {
	case KindStopped:
		return stoppedError(err)
	case KindNoSpace:
		return noSpaceError(err, dst)
	case KindChanged, KindDenied, KindDiffers:
		return newError(KindOf(err), 1, []string{err.Error()})
	}
	return &Error{Code: moverreport.CodeIO, Reason: moverreport.ReasonIOError, Err: err,
		Message: err.Error() + ". See the logs of the node and of the storage. A retry resumes the copy"}
}

func UsageError(err error) *Error {
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
func noSpaceError(err error, dst fileSystem) *Error {
	e := &Error{Code: moverreport.CodeNoSpace, Reason: moverreport.ReasonNoSpace, Err: err}
	var st unix.Statfs_t
	if dst != nil {
		st, _ = dst.Statfs()
	}
	switch {
	case errors.Is(err, unix.EDQUOT):
		e.Reason = moverreport.ReasonQuota
		e.Message = fmt.Sprintf("the quota on the target is used up: %v. Raise it, then copy again to resume", err)
	case needsInode(err) && inodesAreScarcer(&st):
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
	var f *Fault
	return errors.As(err, &f) && (f.op == OpCreating || f.op == OpMaking)
}

// inodesAreScarcer reports whether inodes ran out rather than blocks. Neither number need be zero by now, because the
// other workers have removed their unfinished files. A file system that creates inodes on demand, such as btrfs, reports
// none.
func inodesAreScarcer(st *unix.Statfs_t) bool {
	return float64(st.Ffree)*float64(st.Blocks) < float64(st.Bfree)*float64(st.Files)
}

// RootError turns a root that is missing or is not a directory into a usage error.
func RootError(err error) error {
	if IsAny(err, unix.ENOENT, unix.ENOTDIR, unix.ELOOP) {
		return UsageError(err)
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

// rightsAdvice returns the advice for NotFaithful. It does not ask for rights that this process has.
func rightsAdvice() string {
	if HasCapability(unix.CAP_DAC_OVERRIDE) && HasCapability(unix.CAP_CHOWN) {
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
		CountOf(e.Count), e.Paths[0], context)
}

// effectiveCapabilities returns the effective capabilities of this process as a set of bits.
func effectiveCapabilities() uint64 {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&head, &data[0]); err != nil {
		return 0
	}
	return uint64(data[0].Effective) | uint64(data[1].Effective)<<32
}

func HasCapability(n int) bool { return effectiveCapabilities()>>n&1 != 0 }

// SeesTrusted reports whether this process can list attributes of the namespace trusted.
func SeesTrusted() bool { return HasCapability(unix.CAP_SYS_ADMIN) }

// TooSmall returns the error for a target that has too little space.
func TooSmall(format string, args ...any) error {
	return &Error{Code: moverreport.CodeNoSpace, Reason: moverreport.ReasonNoSpace,
		Message: fmt.Sprintf(format, args...)}
}
