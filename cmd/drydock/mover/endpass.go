//go:build linux

package mover

import (
	"context"
	"slices"

	"golang.org/x/sys/unix"

	"drydock.dev/shared/moverreport"
)

// endFirstPass verifies the copy, and records all files that can be recorded.
func (c *copier) endFirstPass(ctx context.Context) error {
	c.meter.enter(moverreport.PhaseVerify)
	if err := c.cost.check.measure(c.limit, func() error { return c.confirm(ctx) }); err != nil {
		return err
	}
	if err := c.problems.err(); err != nil {
		return err
	}
	if c.twoPass.current != nil {
		c.voidRecordAfterStep()
	}
	if c.twoPass.current == nil {
		return nil
	}
	for _, d := range c.tree.dirs {
		if !d.excluded && c.isSettledDir(d) {
			c.twoPass.current.add(recordedDir(&d.self.meta), 0)
		}
	}
	return c.saveRecord()
}

// endFinalPass deletes the record and the marker last, so that an interrupted final pass can resume with them. This is
// safe: the record describes single inodes of both sides, and their state shows everything that the interrupted pass
// did.
func (c *copier) endFinalPass() error {
	if len(c.ownNames) == 0 {
		return nil
	}
	if err := c.checkOwned(); err != nil {
		return err
	}
	c.releaseTarget()
	for _, name := range []string{recordName, markerName} { // the marker goes last: it stays while the target holds anything else
		if !slices.Contains(c.ownNames, name) {
			continue
		}
		err := ignoringEINTR(func() error { return unix.Unlinkat(c.dst.fd, name, 0) })
		if err != nil && err != unix.ENOENT {
			return &fault{target, "deleting", name, err}
		}
	}
	if err := c.finishDir(c.tree.top); err != nil { // deleting a name has changed the root's time
		return err
	}
	if err := ignoringEINTR(func() error { return unix.Fsync(c.dst.fd) }); err != nil {
		return &fault{target, "flushing", "", err}
	}
	return c.verifyRoot()
}
