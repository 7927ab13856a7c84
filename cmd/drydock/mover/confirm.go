//go:build linux

package mover

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// confirm verifies a first pass with the verifier of the final pass, so that it fails before the stop for what would fail that pass. The
// source is in use, which makes three differences:
//
//   - A change of the source since the scan is no error.
//   - Contents are compared only where a difference proves that the target is wrong, see comparesContents.
//   - Entries that the pass could not read are not compared, see noteChange.
//
// Equal files are recorded.
func (c *copier) confirm(ctx context.Context) error {
	if st, err := fstat(c.src.fd); err == nil && metaOf(&st) == c.tree.top.self.meta && !c.tree.top.unread.Load() {
		if err := c.problems.collect(c.verifyRoot()); err != nil { // before the record writer changes the time of the root
			return err
		}
	}
	s := c.newHasher()
	s.first = c
	return s.run(ctx, c.workers)
}

// comparesContents reports whether a verification compares the contents of an entry. A first pass compares settled files. Where change
// times are not trusted, the source may have changed without a trace, so it compares the target with the copied bytes, if their hash is
// kept.
func (s *treeHasher) comparesContents(d *dir, e *entry) bool {
	if s.first == nil {
		return true
	}
	if s.first.twoPass.current == nil {
		_, known := e.copiedSum()
		return known
	}
	return s.first.isRecordable(d, e)
}

// isRecordable reports whether a first pass may record an entry. Of several names of an inode, it records only one.
func (c *copier) isRecordable(d *dir, e *entry) bool {
	if c.twoPass.current == nil || !c.isSettled(e) {
		return false
	}
	g := c.tree.groupOf(e)
	return g == nil || g.isLeader(d, e)
}

// confirmKnown takes a file over from an earlier record, after one stat of the target. It returns false if that is not
// possible.
func (c *copier) confirmKnown(d *dir, e *entry, fds []int, seen *trustedFiles) bool {
	if c.twoPass.earlier == nil || e.meta.nlink != 1 || !c.isRecordable(d, e) {
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

// confirmEqual records a file whose sides are equal.
func (c *copier) confirmEqual(d *dir, e *entry, both *[2]snapshot) {
	if !c.isRecordable(d, e) {
		return
	}
	if c.hooks.confirmed != nil {
		c.hooks.confirmed(d.join(e.name))
	}
	src, dst := &both[source], &both[target]
	c.twoPass.current.add(recordedFile(&e.meta, &dst.meta, src.content, len(src.attrs) == 0), src.data)
}

// alteredError returns the error for other attributes in a first pass: the source has not changed since the scan, so something alters
// them after the copy, for example the node or a server. A retry does not help.
func alteredError(path string, differences []string) error {
	return &fault{target, "keeping the attributes of", path, fmt.Errorf("%w: %s", errNotKept, strings.Join(differences, ", "))}
}

// noteChange marks the directory of an entry whose copy failed because the source changed. Such a change shows in the stat of the entry,
// so the verification does not compare the entry. The exceptions have another error: a directory that was renamed for a while, a lease, or
// a stale handle of a network file system.
func (c *copier) noteChange(d *dir, err error) {
	if c.pass == PassFirst && err != nil && (kindOf(err) == kindChanged && !errors.Is(err, errChanged) || isStale(err)) {
		d.unread.Store(true)
	}
}

// mayLack reports whether a first pass may have left out an entry of the directory, or a name of its group.
func (s *treeHasher) mayLack(d *dir, e *entry) bool {
	if s.first == nil {
		return false
	}
	if d.unread.Load() {
		return true
	}
	if e == nil {
		return false
	}
	g := s.tree.groupOf(e)
	if g == nil {
		return false
	}
	for _, m := range g.names {
		if m.dir.unread.Load() || m.dir.excluded {
			return true
		}
	}
	return false
}

// isDifference reports whether a comparison failed because the target differs.
func isDifference(err error) bool {
	return kindOf(err) == kindDiffers || errors.Is(err, errNotKept)
}
