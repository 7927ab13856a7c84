//go:build linux

package mover

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"drydock.dev/shared/moverreport"
)

// mustRepeat reports whether a presumption was wrong, or an error of the pass may come from a wrong one.
func (c *copier) mustRepeat(err error) bool {
	if !c.twoPass.presume || kindOf(err) == kindStopped {
		return false
	}
	var f *fault
	return c.twoPass.misjudged.Load() || errors.As(err, &f) && f.side == target && isAny(f.err, unexpectedKind...)
}

// unexpectedKind are the errors of names in the target that are missing or have another type.
var unexpectedKind = []error{unix.ENOENT, unix.ENOTDIR, unix.EISDIR, unix.ELOOP, unix.ENXIO, unix.EEXIST, unix.ENOTEMPTY}

// forget prepares the repetition of a pass without presumptions.
func (c *copier) forget() {
	c.twoPass.presume = false
	c.twoPass.misjudged.Store(false)
	c.problems.forget()
	c.skipped.Store(0)
	c.trustedFiles.Store(0)
	c.trustedBytes.Store(0)
	c.inodeOwners.Clear()
	c.keeper.forget()
	for _, g := range c.tree.groups {
		g.failed.Store(false)
		g.inode.Store(0)
		g.sums = [2]onceSum{}
	}
	for _, d := range c.tree.dirs {
		d.fresh, d.presumed, d.excluded = false, false, false
		d.unread.Store(false)
	}
	if c.twoPass.current != nil {
		c.twoPass.current.close()
		c.twoPass.current = c.newRecordWriter()
	}
}

// transferWithRepeat is transfer, and once more if a presumption was wrong.
func (c *copier) transferWithRepeat(ctx context.Context, unverified bool) error {
	err := c.transfer(ctx, unverified)
	if !c.mustRepeat(err) {
		return err
	}
	c.forget()
	c.meter.enter(moverreport.PhaseCopy)
	return c.transfer(ctx, unverified)
}
