//go:build linux

package mover

import (
	"context"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"drydock.dev/shared/moverreport"
)

// endFirstPass verifies the copy, and records the equal files.
func (c *copier) endFirstPass(ctx context.Context) error {
	c.meter.enter(moverreport.PhaseVerify)
	if err := c.cost.check.measure(c.limit, func() error { return c.verify(ctx) }); err != nil {
		return err
	}
	if c.trust.current != nil {
		c.trust.voidRecordAfterStep()
	}
	if c.trust.current == nil {
		return nil
	}
	c.saved = c.trust.current.record(c.trust.id)
	if c.recordPath == "" {
		return nil
	}
	if err := c.saved.save(c.recordPath, c.hooks.recording); err != nil {
		c.warn("the record of verified files could not be written (%v), so no file counts as unchanged in another process", err)
	}
	return nil
}

// endFinalPass deletes the record and the marker last, so that an interrupted final pass can resume with them. This is
// safe: the record describes single inodes of both sides, and their state shows everything that the interrupted pass
// did.
func (c *copier) endFinalPass() error {
	if c.pass != PassWhole && c.recordPath != "" {
		_ = os.Remove(c.recordPath) // it would still be correct
	}
	if !slices.Contains(c.ownNames, markerName) {
		return nil
	}
	if err := c.checkOwned(); err != nil {
		return err
	}
	c.releaseTarget()
	err := ignoringEINTR(func() error { return unix.Unlinkat(c.dst.fd, markerName, 0) })
	if err != nil && err != unix.ENOENT {
		return &fault{target, "deleting", markerName, err}
	}
	if err := c.finishDir(c.tree.top); err != nil { // deleting a name has changed the root's time
		return err
	}
	if err := ignoringEINTR(func() error { return unix.Fsync(c.dst.fd) }); err != nil {
		return &fault{target, "flushing", "", err}
	}
	return c.verifyRoot()
}

// transfer copies, flushes and verifies.
func (c *copier) transfer(ctx context.Context, unverified bool) error {
	for _, step := range []func(context.Context) error{c.timedStep(c.prepare), c.fillTimed, c.timedStep(c.link), c.timedStep(c.finish)} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if err := c.problems.err(); err != nil {
		return err
	}
	c.meter.enter(moverreport.PhaseSync)
	began := time.Now()
	if err := writeBack(ctx, c.dst.fd); err != nil {
		return &fault{target, "flushing", "", err}
	}
	c.cost.flush = time.Since(began)
	if err := c.checkSpaceAfter(); err != nil {
		return err
	}
	if c.hooks.synced != nil {
		c.hooks.synced()
	}
	return c.finishPass(ctx, unverified)
}

// finishPass verifies and records as the kind of the pass demands.
func (c *copier) finishPass(ctx context.Context, unverified bool) error {
	switch {
	case unverified && c.pass == PassFirst:
		c.trust.current = nil
		return nil
	case c.pass == PassFirst:
		if err := c.endFirstPass(ctx); err != nil {
			return err
		}
		return c.measureFirstPass(ctx)
	case !unverified:
		c.meter.enter(moverreport.PhaseVerify)
		if err := c.verify(ctx); err != nil {
			return err
		}
	}
	if err := c.endFinalPass(); err != nil {
		return err
	}
	c.verified = !unverified
	return nil
}
