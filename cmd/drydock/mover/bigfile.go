//go:build linux

package mover

// bigFileMin is the minimum size of a big file. In two passes, only the differing blocks of a big file are written,
// under its final name. A run that dies may leave a mixture of old and new blocks. The next run recognizes it: the
// file's time is set last, and no record contains its inode in that state.
const bigFileMin = 1 << 20

// isBig reports whether a file is compared and written by blocks.
func (c *copier) isBig(e *entry) bool {
	return c.pass != PassWhole && e.meta.isRegular() && e.meta.size >= bigFileMin
}
