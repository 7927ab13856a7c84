//go:build linux

package mover

import (
	"context"
	"time"

	"drydock.dev/shared/moverreport"
)

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
		c.twoPass.current = nil
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
		c.digest = ""
		return err
	}
	return nil
}
