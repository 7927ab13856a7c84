//go:build linux

package mover

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// confirm verifies the files that a first pass may record, and records the equal ones. It reads both sides, and the
// target from its device. It skips files that were changed recently. The source is in use, so most differences are no
// errors. The exception is a file with different contents but equal attributes.
func (c *copier) confirm(ctx context.Context) error {
	s := c.newHasher()
	all := func(*dir, *block) bool { return false }
	return c.eachBlock(ctx, all, func(ctx context.Context, d *dir, entries []entry) error { return c.confirmChunk(ctx, s, d, entries) })
}

// errWrongContents means that the contents differ although the attributes are equal. A write to the source would have
// changed its modification time, so the copy is wrong.
var errWrongContents = fmt.Errorf("%w: its contents differ", errMismatch)

func (c *copier) confirmChunk(ctx context.Context, s *treeHasher, d *dir, entries []entry) error {
	defer c.cost.check.task(time.Now())
	fds, err := s.open(d)
	defer closeAll(fds)
	if err != nil {
		s.judge(d, nil, err)
		return c.tolerateMissing(err)
	}
	var ahead prefetcher
	var seen trustedFiles
	defer func() { seen.addTo(s) }()
	for i := range entries {
		e := &entries[i]
		if e.sub != nil {
			continue
		}
		if c.isRecordable(d, e) && !c.confirmKnown(s, d, e, fds, &seen) {
			ahead.advance(s, fds, entries, i, func(e *entry) bool { return c.isRecordable(d, e) && s.mustRead(e) })
			err := c.confirmEntry(ctx, s, d, e, fds, ahead.isFresh(e))
			s.judge(d, e, err)
			if err := c.tolerateMissing(err); err != nil {
				return err
			}
		}
		c.meter.files.Add(1)
	}
	return nil
}

// isRecordable reports whether a first pass may record an entry. Of several names of an inode, it records only one.
func (c *copier) isRecordable(d *dir, e *entry) bool {
	if !c.isSettled(e) {
		return false
	}
	g := c.tree.groupOf(e)
	return g == nil || g.isLeader(d, e)
}

// confirmKnown takes a file over from an earlier record, after one stat of the target. It returns false if that is not
// possible.
func (c *copier) confirmKnown(s *treeHasher, d *dir, e *entry, fds []int, seen *trustedFiles) bool {
	if c.twoPass.earlier == nil || e.meta.nlink != 1 {
		return false
	}
	have, err := statIn(fds[target], e)
	if err != nil {
		return false
	}
	k, ok := c.verified(e, have.meta)
	if !ok || !k.plain || !sameAttributes(&e.meta, &have.meta) || have.meta.nlink != 1 {
		return false
	}
	if c.hooks.confirmed != nil {
		c.hooks.confirmed(d.join(e.name))
	}
	c.twoPass.current.add(recordedFile(&e.meta, &have.meta, k.content, true), have.data)
	seen.files++
	seen.bytes += have.data
	return true
}

// tolerateMissing collects an error, and ignores a difference other than errWrongContents. The target may lack an entry
// that is new in the source, or have an earlier version of a changed file.
func (c *copier) tolerateMissing(err error) error {
	if err != nil && kindOf(err) == kindDiffers && !errors.Is(err, errWrongContents) {
		return nil
	}
	return c.problems.collect(err)
}

// confirmEntry compares an entry in both trees, and records it if they are equal. If only the contents differ, the next run
// copies the entry again.
//
// The source has not changed since the scan. So if this pass has written the target's file, other attributes are not those of an
// earlier version: something alters them after the copy, for example the node or a server. The final pass would meet the same
// difference, after the stop. Names of hard links may be missing in the target because their directories changed.
func (c *copier) confirmEntry(ctx context.Context, s *treeHasher, d *dir, e *entry, fds []int, fresh bool) error {
	both, err := s.readSides(ctx, d, e, fds, fresh)
	if err != nil {
		return err
	}
	src, dst := &both[source], &both[target]
	if src.content != dst.content && sameAttributes(&src.meta, &dst.meta) {
		c.invalidate(fds[target], e)
		return &fault{target, "comparing", d.join(e.name), errWrongContents}
	}
	g := c.tree.groupOf(e)
	if err := differenceError(func() string { return d.join(e.name) }, src, dst, g); err != nil {
		if g == nil && !dst.meta.ctime().before(unixTimeOf(c.scanBegan)) {
			return &fault{target, "keeping the attributes of", d.join(e.name),
				fmt.Errorf("%w: %s", errNotKept, strings.Join(differences(src, dst, g), ", "))}
		}
		return err
	}
	if c.hooks.confirmed != nil {
		c.hooks.confirmed(d.join(e.name))
	}
	c.twoPass.current.add(recordedFile(&e.meta, &dst.meta, src.content, len(src.attrs) == 0), src.data)
	return nil
}
