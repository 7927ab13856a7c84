//go:build linux

package mover

// tree is the result of a scan.
type tree struct {
	top    *dir
	dirs   []*dir           // parents before their children
	groups map[inode]*group // inodes with two or more names in the tree
	hasBig bool             // there is a big file
	newest unixTime         // the latest change time of an entry
	nested []string         // directories that are subvolumes
	sparse map[inode]int64  // data bytes of big files with holes
}

// countEntries returns the number of entries in the tree.
func (t *tree) countEntries() int64 {
	var n int64
	for _, d := range t.dirs {
		n += int64(d.count())
	}
	return n
}

// dataSize estimates how many bytes of a regular file are outside of holes. It is exact enough for big files only.
func (t *tree) dataSize(e *entry) int64 {
	if e.meta.size < bigFileMin {
		return e.meta.size
	}
	if data, known := t.sparse[e.meta.inode()]; known {
		return data
	}
	return e.meta.size
}

// orderDirs lists the directories so that parents come first.
func (t *tree) orderDirs(top *dir) {
	t.dirs = append(t.dirs, top)
	for i := 0; i < len(t.dirs); i++ {
		for sub := range t.dirs[i].subs() {
			t.dirs = append(t.dirs, sub)
		}
	}
}
