//go:build linux

package mover

// maxCopiedSums is the number of hashes of copied files that a pass keeps: 32 MiB of memory.
const maxCopiedSums = 1 << 20

// reserveCopiedSums makes room for hashes of the files that a first pass copies. It hashes a file that fits in one buffer while it
// copies it. If the source's inode has not changed since, the verification reads only the target. So such files of the source,
// which is in use, are read once.
//
// This proves as much as a second read of the source: only settled files are verified, and a later write changes their
// inode, see beginTwoPass.
func (c *copier) reserveCopiedSums() {
	if c.twoPass.current == nil || c.twoPass.earlier != nil { // with an earlier record, few files are copied
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
	if e.copied != nil && e.meta.nlink == 1 && int64(len(contents)) == e.meta.size && c.isSettled(e) {
		*e.copied = hashBytes(contents)
	}
}

// copiedSum returns the hash of a file's contents if this pass has copied it and the file has no extended attributes. It is
// that of the file as long as its inode does not change.
func (e *entry) copiedSum() (s sum, known bool) {
	if e.copied == nil || *e.copied == (sum{}) {
		return sum{}, false
	}
	return *e.copied, true
}
