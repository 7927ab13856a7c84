//go:build linux

package mover

// newHasher returns a hasher of both sides. It does not read files that an earlier pass verified.
func (c *copier) newHasher() *treeHasher {
	s := &treeHasher{
		tree: c.tree, sides: []*root{c.src, c.dst}, meter: c.meter, problems: &c.problems,
		isOwnName: c.isOwnName, verified: c.verified, trusted: c.countTrusted, effort: &c.cost.check, limit: c.limit,
		misjudged: c.judge, invalidate: c.invalidate, lacksFlags: c.ignoredFlags, sourceKnown: c.sourceIsSettled(),
	}
	if c.twoPass.earlier != nil {
		s.expected = c.twoPass.earlier.expects
	}
	if c.pass == PassFirst && c.twoPass.id.boot != "" {
		s.keeper = &c.keeper
	}
	if c.pass == PassFinal {
		s.patched = c.completePatch
	}
	return s
}

// completePatch returns the complete patch by units of a file, if nothing has changed the target since.
func (c *copier) completePatch(e *entry, have *meta) *patchedUnits {
	if !c.isBig(e) {
		return nil
	}
	if p := c.keeper.patchOf(e.meta.inode()); p != nil && p.done && p.targetAfter == *have {
		return p
	}
	return nil
}

// countTrusted counts files that were not read.
func (c *copier) countTrusted(files, bytes int64) {
	c.trustedFiles.Add(files)
	c.trustedBytes.Add(bytes)
}
