//go:build linux

package mover

import (
	"context"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/fault"
	"drydock.dev/cmd/drydock/mover/forecast"
	"drydock.dev/cmd/drydock/mover/fsys"
	"drydock.dev/cmd/drydock/mover/tree"
	"drydock.dev/cmd/drydock/mover/units"
	"drydock.dev/cmd/drydock/mover/verify"
	"drydock.dev/shared/moverreport"
)

// transfer copies, flushes and verifies.
func (c *copier) transfer(ctx context.Context, unverified bool) error {
	steps := []func(context.Context) error{
		c.timedStep(c.dirs.Prepare), c.fillTimed, c.timedStep(c.links.Link), c.timedStep(c.dirs.Finish),
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if err := c.Problems.Err(); err != nil {
		return err
	}
	c.Meter.Enter(moverreport.PhaseSync)
	began := time.Now()
	if err := fsys.WriteBack(ctx, c.Dst.Fd); err != nil {
		return fault.New(fault.Target, "flushing", "", err)
	}
	c.cost.flush = time.Since(began)
	if err := c.own.CheckSpaceAfter(); err != nil {
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
	return c.cost.copy.Measure(c.Limit, func() error { return c.files.Fill(ctx) })
}

// finishPass verifies and records as the kind of the pass demands.
func (c *copier) finishPass(ctx context.Context, unverified bool) error {
	switch {
	case unverified && c.Pass == tree.PassFirst:
		c.trust.Current = nil
		return nil
	case c.Pass == tree.PassFirst:
		if err := c.endFirstPass(ctx); err != nil {
			return err
		}
		return c.measureFirstPass(ctx)
	case !unverified:
		c.Meter.Enter(moverreport.PhaseVerify)
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
	c.Meter.Enter(moverreport.PhaseVerify)
	if err := c.cost.check.Measure(c.Limit, func() error { return c.verify(ctx) }); err != nil {
		return err
	}
	if c.trust.Current != nil {
		c.trust.VoidRecordAfterStep()
	}
	if c.trust.Current == nil {
		return nil
	}
	c.saved = c.trust.Record()
	if c.recordPath == "" {
		return nil
	}
	if err := c.saved.Save(c.recordPath, c.hooks.recording); err != nil {
		c.Problems.Warn("the record of verified files could not be written (%v), so no file counts as unchanged in another process", err)
	}
	return nil
}

// endFinalPass deletes the record and the marker last, so that an interrupted final pass can resume with them. This is
// safe: the record describes single inodes of both sides, and their state shows everything that the interrupted pass
// did.
func (c *copier) endFinalPass() error {
	if c.Pass != tree.PassWhole && c.recordPath != "" {
		_ = os.Remove(c.recordPath) // it would still be correct
	}
	if !c.own.Marked {
		return nil
	}
	if err := c.own.RemoveMarker(); err != nil {
		return err
	}
	if err := c.dirs.FinishDir(c.Tree.Top); err != nil { // deleting a name has changed the root's time
		return err
	}
	if err := fsys.IgnoringEINTR(func() error { return unix.Fsync(c.Dst.Fd) }); err != nil {
		return fault.New(fault.Target, "flushing", "", err)
	}
	return c.roots.VerifyRoot()
}

// verify reads both trees, compares them and collects the differences.
func (c *copier) verify(ctx context.Context) error {
	v := &verify.Verifier{
		Job: c.Job, Own: c.own, Trust: c.trust, Keeper: &c.keeper, Effort: &c.cost.check, Seams: c.hooks,
		LacksFlags: c.flags.IgnoredFlags(), SourceKnown: c.sourceIsSettled(),
	}
	if err := v.Run(ctx); err != nil {
		return err
	}
	if c.Pass != tree.PassFirst || c.rootIsUnchanged() {
		if err := c.Problems.Collect(c.roots.VerifyRoot()); err != nil {
			return err
		}
	}
	return c.Problems.Err()
}

// rootIsUnchanged reports whether the source's root looks as it was scanned.
func (c *copier) rootIsUnchanged() bool {
	st, err := fsys.Fstat(c.Src.Fd)
	return err == nil && fsys.MetaOf(&st) == c.Tree.Top.Self.Meta && !c.Tree.Top.Unread.Load()
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
	if c.Pass != tree.PassFinal || c.trust.Earlier == nil {
		return false
	}
	newest := c.Tree.Newest
	resolution := stampResolution
	if newest.Nsec == 0 {
		resolution = coarseResolution
	}
	return newest.Before(fsys.TimeOf(c.scanBegan.Add(-resolution)))
}

// A first pass hashes the big files of the target and keeps the hashes in memory. The next pass of the same process compares them
// with the source, and reads only those units of the target that differ.
//
// The contents are read from the target's device after a flush. The hashes describe the target only, so they are valid even if the
// source changed meanwhile or the copy was wrong. They are valid until the target's inode changes, see fsys.Root.IsTrusted. A patch
// uses them once. A cancelled patch may write without a visible change of the inode, because small inodes store whole seconds only.

// keepHashes hashes the big files of the target that the next pass must compare and that this pass has not hashed. It ignores errors:
// the next pass then reads the file on both sides.
func (c *copier) keepHashes(ctx context.Context, k *forecast.FirstPass) {
	if !c.trust.Usable || !c.Tree.HasBig {
		return
	}
	for _, d := range c.Tree.Dirs {
		for e := range d.All() {
			if e.Meta.IsRegular() && c.IsBig(e) && !c.keeper.Has(e.Meta.Inode()) && !c.trust.IsInSubvolume(&e.Meta) && ctx.Err() == nil {
				c.keepFile(ctx, k, d, e)
			}
		}
	}
	k.Kept = c.keeper.Files
}

func (c *copier) keepFile(ctx context.Context, k *forecast.FirstPass, d *tree.Dir, e *tree.Entry) {
	fd, err := c.Dst.Open(d.Path())
	if err != nil {
		return
	}
	defer unix.Close(fd)
	file, err := fsys.Openat(fd, e.Name, unix.O_RDONLY, 0)
	if err != nil {
		return
	}
	defer unix.Close(file)
	st, err := fsys.Fstat(file)
	have := fsys.MetaOf(&st)
	if err != nil || !have.IsRegular() || have.Size < tree.BigFileMin || fsys.DropPages(file) != nil {
		return
	}
	old := (*units.KeptHashes)(nil)
	if c.last != nil {
		old = c.last.Kept[e.Meta.Inode()]
	}
	sums := c.keeper.Reserve(have.Size)
	if sums == nil {
		return
	}
	p := c.keeper.PatchOf(e.Meta.Inode())
	switch {
	case p != nil && p.TargetAfter == have: // unchanged since the patch
		err = p.Rehash(ctx, c.Limit, file, have.Size, sums)
	case old != nil && old.Meta == have && !old.Used.Load():
		copy(sums, old.Sums)
	case k.IsRecorded(&e.Meta):
		err = fault.ErrChanged // this process has not read it, and the next pass does not read it
	default:
		err = units.HashFileUnits(ctx, file, have.Size, fsys.DataBytes(&st), c.Limit, func(i int64, u units.Sum) { sums[i] = u })
	}
	now, serr := fsys.Fstat(file)
	if err != nil || serr != nil || fsys.MetaOf(&now) != have {
		c.keeper.Drop(sums)
		return
	}
	c.keeper.Store(e.Meta.Inode(), have, sums)
}

// measureFirstPass computes the figures at the end of a first pass.
func (c *copier) measureFirstPass(ctx context.Context) error {
	k := forecast.NewFirstPass(c.Tree, c.saved, c.trust.Bound)
	c.keepHashes(ctx, k)
	if err := context.Cause(ctx); err != nil {
		return err
	}
	c.state, c.measured = k, c.figures(k)
	return nil
}

// figures returns the figures of a first pass. A final pass visits each entry twice, to copy it and to verify it. A
// first pass verifies only the entries that it can record, so the larger of both costs counts twice.
func (c *copier) figures(k *forecast.FirstPass) forecast.Figures {
	visit := max(c.cost.copy.Metadata(), c.cost.check.Metadata())
	return forecast.Figures{
		Scan: c.cost.scan, Metadata: c.cost.steps + 2*visit, Flush: c.cost.flush,
		Cost: forecast.CostOf(&c.cost.copy, &c.cost.check), Remaining: k.Remaining(c.Tree),
	}
}
