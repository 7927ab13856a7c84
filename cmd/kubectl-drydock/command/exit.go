package command

import (
	"errors"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"drydock.dev/shared/text"
)

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

// ErrorText returns the error for a terminal. An error may quote other users, for example in an answer of the API server. So it has no
// control characters, and only its first line begins at the margin. If a right is missing, doctor lists all missing rights.
func ErrorText(err error) string {
	var lines []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		lines = append(lines, text.Printable(line))
	}
	if apierrors.IsForbidden(err) {
		var connected connectedError
		errors.As(err, &connected)
		lines = append(lines, connected.connection.in("Show the rights that you lack with: kubectl drydock doctor, and -n for another namespace"))
	}
	return "error: " + strings.Join(lines, "\n  ") + "\n"
}
