//go:build linux

package mover

import "time"

// A pass with the record of an earlier one presumes that the target still has the recorded file, if the source looks as it
// did. So it does not look at these entries of the target before it copies the others. The verification looks at all of
// them. If a presumption is wrong there, the pass is repeated without any. A pass without verification presumes nothing.

// presumes reports whether the target presumably has a file.
func (c *copier) presumes(d *dir, e *entry) bool {
	return c.twoPass.presume && !d.fresh && c.presumesFile(&e.meta)
}

// presumesFile reports whether a file looks as it did when it was recorded.
func (c *copier) presumesFile(m *meta) bool {
	return m.isRegular() && m.nlink == 1 && !c.isInSubvolume(m) && c.twoPass.earlier.expects(m)
}

// skipsBlock reports whether all files of a block are presumed, and counts them.
func (c *copier) skipsBlock(d *dir, b *block) bool {
	if !c.twoPass.presume || d.fresh || !b.isPresumed() {
		return false
	}
	c.countPresumed(int64(b.presumed), b.bytes)
	return true
}

func (c *copier) countPresumed(files, bytes int64) {
	if files > 0 {
		c.skipped.Add(files)
		c.meter.files.Add(files)
		c.meter.bytes.Add(bytes)
	}
}

// presumesDir reports whether a directory of the target presumably has no extra names, no fewer subdirectories and the right
// attributes. The root changes with each pass.
func (c *copier) presumesDir(d *dir) bool {
	return c.twoPass.presume && d.parent != nil && !d.fresh && !c.isInSubvolume(&d.self.meta) && c.twoPass.earlier.expects(&d.self.meta)
}

// judge notes a difference that contradicts a presumption. e is nil for a directory.
func (c *copier) judge(d *dir, e *entry, err error) {
	if !c.twoPass.presume || kindOf(err) == kindChanged || kindOf(err) == kindStopped {
		return
	}
	if d.presumed || e != nil && c.presumes(d, e) {
		c.twoPass.misjudged.Store(true)
	}
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
	if c.pass != PassFinal || c.twoPass.earlier == nil {
		return false
	}
	newest := c.tree.newest
	resolution := stampResolution
	if newest.nsec == 0 {
		resolution = coarseResolution
	}
	return newest.before(unixTimeOf(c.scanBegan.Add(-resolution)))
}
