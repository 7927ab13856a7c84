//go:build linux

package mover

import (
	"golang.org/x/sys/unix"

	"drydock.dev/shared/moverreport"
)

// checkOwned fails if the marker was deleted: another mover has completed the copy, and the workload may run on it. That happens on shared
// storage if the cluster declares this mover's pod ended because its node is lost, and the node comes back. Each write must follow a check,
// although a write that the server has not answered yet can still be late.
func (c *copier) checkOwned() error {
	if c.marker == nil {
		return nil
	}
	st, err := fstat(int(c.marker.Fd()))
	switch {
	case err == nil && st.Nlink > 0:
		return nil
	case err == nil, err == unix.ESTALE: // a network file system has lost a file that another node has deleted
		return &Error{Code: moverreport.CodeTargetNotEmpty, Reason: moverreport.ReasonTargetNotEmpty, Count: 1, Err: err,
			Message: "the target has lost its marker: another mover has completed this copy, so this one must not write any more"}
	}
	return &fault{target, "looking at", c.marker.Name(), err}
}

// releaseTarget ends the checks, before the marker is deleted.
func (c *copier) releaseTarget() {
	if c.marker != nil {
		c.marker.Close()
		c.marker = nil
	}
}
