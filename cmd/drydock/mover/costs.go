//go:build linux

package mover

import (
	"context"
	"time"
)

// costs are the durations of a pass's phases.
type costs struct {
	scan, steps, flush time.Duration // steps: preparing, linking and finishing
	copy, check        effort
}

// timed runs a step that treats no contents.
func (c *copier) timed(step func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		began := time.Now()
		defer func() { c.cost.steps += time.Since(began) }()
		return step(ctx)
	}
}

func (c *copier) fillTimed(ctx context.Context) error {
	return c.cost.copy.time(c.limit, func() error { return c.fill(ctx) })
}

// learn ends a warm pass.
func (c *copier) learn(ctx context.Context) error {
	k := c.knowledge()
	c.sampleCheck(ctx, k)
	if err := context.Cause(ctx); err != nil {
		return err
	}
	c.known, c.learnt = k, c.figures(k)
	return nil
}

// figures are of a warm pass. A final pass looks at each entry once to copy and once to verify; a warm pass verifies only what it
// can record, so that the costlier of both counts twice.
func (c *copier) figures(k *known) Figures {
	look := max(c.cost.copy.metadata(), c.cost.check.metadata())
	return Figures{
		Scan: c.cost.scan, Metadata: c.cost.steps + 2*look, Flush: c.cost.flush,
		Copy: c.cost.copy.cost(), Check: c.cost.check.cost(), Left: k.left(c.tree),
	}
}
