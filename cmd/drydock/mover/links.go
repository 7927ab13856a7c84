//go:build linux

package mover

import (
	"context"
	"sort"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// linkName is one name of a group.
type linkName struct {
	dir  *dir
	name string
}

func (m linkName) path() string { return m.dir.join(m.name) }

// group is the set of names of one inode within the tree. The first name, by path, is copied. The others are hard links
// to it.
type group struct {
	names  []linkName
	failed atomic.Bool   // the first name could not be copied, so there is nothing to link to
	inode  atomic.Uint64 // inode in the target that verification saw first
}

// sortGroups sorts the names of each group. It drops groups with only one name inside the tree.
func (t *tree) sortGroups() {
	for id, g := range t.groups {
		if len(g.names) == 1 {
			delete(t.groups, id)
			continue
		}
		sort.Slice(g.names, func(i, j int) bool { return g.names[i].path() < g.names[j].path() })
	}
}

// groupOf returns nil for an entry with a single name in the tree.
func (t *tree) groupOf(e *entry) *group {
	if e.sub != nil || e.meta.nlink == 1 {
		return nil
	}
	return t.groups[e.meta.inode()]
}

// isLeader reports whether an entry of a directory has the first name of the group.
func (g *group) isLeader(d *dir, e *entry) bool {
	return g.names[0].dir == d && g.names[0].name == e.name
}

// linkCount returns how many names the inode must have in the target.
func (g *group) linkCount() uint32 {
	if g == nil {
		return 1
	}
	return uint32(len(g.names))
}

// link creates the other names of every group.
func (c *copier) link(ctx context.Context) error {
	return runPool(ctx, c.workers, func(p *pool) {
		for _, g := range c.tree.groups {
			p.add(func(context.Context) error { return c.problems.collect(c.linkGroup(g)) })
		}
	})
}

func (c *copier) linkGroup(g *group) error {
	first := g.names[0]
	if g.failed.Load() || first.dir.excluded {
		return nil // the reason was collected
	}
	from, err := c.dst.open(first.dir)
	if err != nil {
		return &fault{target, "opening the directory", first.dir.path(), err}
	}
	defer unix.Close(from)
	for _, m := range g.names[1:] {
		if m.dir.excluded {
			continue
		}
		if err := c.problems.collect(c.linkOther(from, first, m)); err != nil {
			return err
		}
		c.meter.files.Add(1)
	}
	return nil
}

// linkOther links a name to the group's first name, unless it is linked already.
func (c *copier) linkOther(from int, first, m linkName) error {
	at, err := c.dst.open(m.dir)
	if err != nil {
		return &fault{target, "opening the directory", m.dir.path(), err}
	}
	defer unix.Close(at)
	want, err := lstatat(from, first.name)
	if err != nil {
		return &fault{target, "looking at", first.path(), err}
	}
	if have, err := lstatat(at, m.name); err == nil && have.Ino == want.Ino {
		c.skipped.Add(1)
		return nil
	}
	if err := c.checkOwned(); err != nil {
		return err
	}
	tmp, err := c.makeTemp(m.dir, func(name string) error {
		return unix.Linkat(from, first.name, at, name, 0)
	})
	if err != nil {
		return &fault{target, "linking " + quote(first.path()) + " to", m.path(), err}
	}
	c.files.Add(1)
	return c.install(at, tmp, m.dir, m.name)
}

// isOwnInode reports whether a name without hard links has a separate inode, or whether no other group uses the inode of
// a name with hard links.
func (c *copier) isOwnInode(have *meta, g *group) bool {
	if g == nil {
		return have.nlink == 1
	}
	keeper, _ := c.inodeOwners.LoadOrStore(have.inode(), g)
	return keeper == g
}

// isFirstInode reports whether a name of the target has the inode that was seen first for its group.
func (g *group) isFirstInode(ino uint64) bool {
	return g.inode.CompareAndSwap(0, ino) || g.inode.Load() == ino
}
