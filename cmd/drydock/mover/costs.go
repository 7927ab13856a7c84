//go:build linux

package mover

import (
	"context"
	"time"
)

// timedStep adds the duration of a step that reads no contents.
func (c *copier) timedStep(step func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		began := time.Now()
		defer func() { c.cost.steps += time.Since(began) }()
		return step(ctx)
	}
}

func (c *copier) fillTimed(ctx context.Context) error {
	return c.cost.copy.measure(c.limit, func() error { return c.fill(ctx) })
}

// measureFirstPass computes the figures at the end of a first pass.
func (c *copier) measureFirstPass(ctx context.Context) error {
	k := c.newFirstPassState()
	c.keepHashes(ctx, k)
	c.sampleCheck(ctx, k)
	if err := context.Cause(ctx); err != nil {
		return err
	}
	c.state, c.measured = k, c.figures(k)
	return nil
}

// figures returns the figures of a first pass. A final pass visits each entry twice, to copy it and to verify it. A
// first pass verifies only the entries that it can record, so the larger of both costs counts twice.
func (c *copier) figures(k *firstPassState) Figures {
	visit := max(c.cost.copy.metadata(), c.cost.check.metadata())
	return Figures{
		Scan: c.cost.scan, Metadata: c.cost.steps + 2*visit, Flush: c.cost.flush,
		Copy: c.cost.copy.cost(), Check: c.cost.check.cost(), Remaining: k.remaining(c.tree),
	}
}
