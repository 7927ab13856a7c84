//go:build linux

package mover

// maxCopiedSums is the number of hashes of copied files that a pass keeps: 32 MiB of memory.
const maxCopiedSums = 1 << 20

// reserveCopiedSums makes room for the hashes of the files that a first pass without an earlier record copies. keepCopied fills in
// the hash of a file without holes that has one name and fits in one buffer. The verification then reads only the target. So
// such files of the source, which is in use, are read once.
//
// This proves as much as a second read of the source: only settled files are recorded, and a later write changes their
// inode, see beginTwoPass. Where change times are not trusted, nothing is recorded, and the hashes are all that a first pass compares.
func (c *copier) reserveCopiedSums() {
	if c.pass != PassFirst || c.twoPass.earlier != nil { // with an earlier record, few files are copied
		return
	}
	left := maxCopiedSums
	for _, d := range c.tree.dirs {
		if d.excluded {
			continue
		}
		for i := range d.blocks {
			if left -= d.blocks[i].count; left < 0 {
				return
			}
			d.blocks[i].copied = make([]sum, d.blocks[i].count)
		}
	}
}

// keepCopied keeps the hash of contents that were read to copy them, if they are the whole file.
func (c *copier) keepCopied(e *entry, contents []byte) {
	if e.copied != nil && e.meta.nlink == 1 && int64(len(contents)) == e.meta.size && (c.twoPass.current == nil || c.isSettled(e)) {
		*e.copied = hashBytes(contents)
	}
}

// copiedSum returns the hash of the contents that this pass has copied, if it is known. It is the hash of the file while its inode
// does not change. Files with extended attributes or inode flags have none.
func (e *entry) copiedSum() (s sum, known bool) {
	if e.copied == nil || *e.copied == (sum{}) {
		return sum{}, false
	}
	return *e.copied, true
}
