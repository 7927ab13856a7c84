//go:build linux

package mover

import (
	"context"

	"golang.org/x/sys/unix"
)

// clean removes two kinds of names from a directory of the target: names that the source does not have, and names that
// are a directory on one side only. The rename that replaces the old entry handles other changes of type.
func (c *copier) clean(ctx context.Context, fd int, d *dir) error {
	names, err := readdir(fd)
	if err != nil {
		return &fault{target, "reading the directory", d.path(), err}
	}
	d.fresh = d.fresh || !containsName(names, func(n dirent) bool { return !d.isLostFound(n.name) && !c.isOwnName(d, n.name) })
	known := finder{dir: d}
	for n := range names.all() {
		if c.isOwnName(d, n.name) {
			continue
		}
		keep, err := c.emptyLostFound(ctx, fd, d, n.name)
		if err := c.problems.collect(err); err != nil {
			return err
		}
		if keep {
			continue
		}
		if n.kind == 0 {
			st, err := lstatat(fd, n.name)
			if err != nil {
				return &fault{target, "looking at", d.join(n.name), err}
			}
			n.kind = st.Mode & unix.S_IFMT
		}
		e := known.find(n.name)
		if e != nil && e.meta.isDir() == (n.kind == unix.S_IFDIR) {
			continue
		}
		r := remover{copier: c, path: d.join(n.name)}
		if err := c.problems.collect(r.removeTree(ctx, fd, n)); err != nil {
			return err
		}
	}
	return nil
}

// containsName reports whether a name of the list satisfies a condition.
func containsName(l nameList, condition func(dirent) bool) bool {
	for n := range l.all() {
		if condition(n) {
			return true
		}
	}
	return false
}
