package command

import "errors"

// Exit codes of kubectl drydock.
const (
	// ExitFailed: the command failed, or an operation that it waited for did not succeed.
	ExitFailed = 1
	// ExitTimeout: the time of --timeout is over, and the operation still runs.
	ExitTimeout = 3
)

// errTimeout marks errors of waits that took longer than --timeout.
var errTimeout = errors.New("the time of --timeout is over")

// ExitCode returns the exit code of the process for the error of a command.
func ExitCode(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errTimeout):
		return ExitTimeout
	}
	return ExitFailed
}
