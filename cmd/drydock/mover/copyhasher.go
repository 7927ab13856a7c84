//go:build linux

package mover

// newHasher returns a hasher of both sides. It does not read files that an earlier pass verified.
func (c *copier) newHasher() *treeHasher {
	return &treeHasher{
		tree: c.tree, sides: []*root{c.src, c.dst}, meter: c.meter, problems: &c.problems,
		isOwnName: c.isOwnName, verifiedContents: c.verifiedContents, trusted: c.countTrusted, effort: &c.cost.check, limit: c.limit,
	}
}

// countTrusted counts a file that was not read. The bytes of hard links count once.
func (c *copier) countTrusted(g *group, e *entry, bytes int64) {
	c.trustedFiles.Add(1)
	if g == nil || g.isLeader(e) {
		c.trustedBytes.Add(bytes)
	}
}
