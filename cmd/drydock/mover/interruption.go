//go:build linux

package mover

import (
	"os"
	"syscall"

	"drydock.dev/shared/moverreport"
)

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
