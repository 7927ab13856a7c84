//go:build linux

package mover

import (
	"context"
	"os"
	"time"

	"drydock.dev/shared/moverreport"
	"golang.org/x/sys/unix"
)

// transfer copies, flushes and verifies.
func (c *copier) transfer(ctx context.Context, unverified bool) error {
	steps := []func(context.Context) error{
		c.timedStep(c.dirs.prepare), c.fillTimed, c.timedStep(c.links.link), c.timedStep(c.dirs.finish),
	}
	for _, step := range steps {
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
		return newFault(target, "flushing", "", err)
	}
	c.cost.flush = time.Since(began)
	if err := c.own.checkSpaceAfter(); err != nil {
		return err
	}
	c.hooks.TargetSynced()
	return c.finishPass(ctx, unverified)
}

// timedStep adds the duration of a step that reads no contents.
func (c *copier) timedStep(step func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		began := time.Now()
		defer func() { c.cost.steps += time.Since(began) }()
		return step(ctx)
	}
}

func (c *copier) fillTimed(ctx context.Context) error {
	return c.cost.copy.measure(c.limit, func() error { return c.files.fill(ctx) })
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
		c.problems.warn("the record of verified files could not be written (%v), so no file counts as unchanged in another process", err)
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
	if !c.own.marked {
		return nil
	}
	if err := c.own.removeMarker(); err != nil {
		return err
	}
	if err := c.dirs.finishDir(c.tree.top); err != nil { // deleting a name has changed the root's time
		return err
	}
	if err := ignoringEINTR(func() error { return unix.Fsync(c.dst.fd) }); err != nil {
		return newFault(target, "flushing", "", err)
	}
	return c.roots.verifyRoot()
}

// verify reads both trees, compares them and collects the differences.
func (c *copier) verify(ctx context.Context) error {
	v := &verifier{
		job: c.job, own: c.own, trust: c.trust, keeper: &c.keeper, effort: &c.cost.check, seams: c.hooks,
		lacksFlags: c.flags.ignoredFlags(), sourceKnown: c.sourceIsSettled(),
	}
	if err := v.run(ctx); err != nil {
		return err
	}
	if c.pass != PassFirst || c.rootIsUnchanged() {
		if err := c.problems.collect(c.roots.verifyRoot()); err != nil {
			return err
		}
	}
	return c.problems.err()
}

// rootIsUnchanged reports whether the source's root looks as it was scanned.
func (c *copier) rootIsUnchanged() bool {
	st, err := fstat(c.src.fd)
	return err == nil && metaOf(&st) == c.tree.top.self.meta && !c.tree.top.unread.Load()
}

// stampResolution is longer than the time between two stamps of the kernel, and coarseResolution than a second, which is the
// resolution of small inodes.
const (
	stampResolution  = 50 * time.Millisecond
	coarseResolution = 1100 * time.Millisecond
)

// sourceIsSettled reports whether nothing had changed in the source for a moment when a final pass began its scan. Then a
// recorded file needs no second look in the verification. Each recorded file was unchanged from its record to the scan, and
// every other file is checked again, so all files had the verified contents at the moment when the scan began.
func (c *copier) sourceIsSettled() bool {
	if c.pass != PassFinal || c.trust.earlier == nil {
		return false
	}
	newest := c.tree.newest
	resolution := stampResolution
	if newest.nsec == 0 {
		resolution = coarseResolution
	}
	return newest.before(unixTimeOf(c.scanBegan.Add(-resolution)))
}
