//go:build linux

package mover

import "crypto/sha256"

// maxCopiedSums is the number of hashes of copied files that a pass keeps: 32 MiB of memory.
const maxCopiedSums = 1 << 20

// reserveCopiedSums makes room for the hashes of the files that a first pass without an earlier record copies. keepCopied fills in
// the hash of a file without holes that has one name and fits in one buffer. The verification then reads only the target. So
// such files of the source, which is in use, are read once.
//
// This proves as much as a second read of the source: only settled files are recorded, and a later write changes their
// inode, see trust.begin. Where change times are not trusted, nothing is recorded, and the hashes are all that a first pass compares.
func (w *fileWriter) reserveCopiedSums() {
	if w.pass != PassFirst || w.trust.earlier != nil { // with an earlier record, few files are copied
		return
	}
	left := maxCopiedSums
	for _, d := range w.tree.dirs {
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
func (w *contentWriter) keepCopied(e *entry, contents []byte) {
	if e.copied != nil && e.meta.nlink == 1 && int64(len(contents)) == e.meta.size && (w.trust.current == nil || w.trust.isSettled(e)) {
		*e.copied = sha256.Sum256(contents)
	}
}
