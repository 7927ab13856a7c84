//go:build linux

package mover

import (
	"context"
	"sort"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// member is a name of a group: an index into a directory's entries.
type member struct {
	dir   *dir
	index int
}

func (m member) entry() *entry { return &m.dir.entries[m.index] }
func (m member) path() string  { return m.dir.join(m.entry().name) }

// group is the names of one inode within the tree. The first, by path, is copied; the others are linked to it.
type group struct {
	members []member
	failed  atomic.Bool   // the first could not be copied: there is nothing to link to
	sums    [2]onceSum    // content of both sides, read once
	inode   atomic.Uint64 // of the target, as verification saw it first
}

// onceSum is the content hash of a group on one side.
type onceSum struct {
	once sync.Once
	sum  sum
	err  error
}

// settleGroups sorts the members, and forgets the groups whose other names are outside of the tree.
func (t *tree) settleGroups() {
	for id, g := range t.groups {
		if len(g.members) == 1 {
			delete(t.groups, id)
			continue
		}
		sort.Slice(g.members, func(i, j int) bool { return g.members[i].path() < g.members[j].path() })
	}
}

// groupOf returns nil for an entry with a single name in the tree.
func (t *tree) groupOf(d *dir, e *entry) *group {
	if e.sub != nil || e.meta.nlink == 1 {
		return nil
	}
	return t.groups[e.meta.inode()]
}

func (g *group) leads(e *entry) bool { return g.members[0].entry() == e }

// links is how many names an inode of the target has to have in the end.
func (g *group) links() uint32 {
	if g == nil {
		return 1
	}
	return uint32(len(g.members))
}

// link gives every group's other names to its first.
func (c *copier) link(ctx context.Context) error {
	return runPool(ctx, c.workers, func(p *pool) {
		for _, g := range c.tree.groups {
			p.add(func(context.Context) error { return c.problems.tolerate(c.linkGroup(g)) })
		}
	})
}

func (c *copier) linkGroup(g *group) error {
	first := g.members[0]
	if g.failed.Load() || first.dir.barred {
		return nil // why was collected
	}
	from, err := c.dst.open(first.dir)
	if err != nil {
		return &fault{target, "opening the directory", first.dir.path(), err}
	}
	defer unix.Close(from)
	for _, m := range g.members[1:] {
		if m.dir.barred {
			continue
		}
		if err := c.problems.tolerate(c.linkMember(from, first, m)); err != nil {
			return err
		}
		c.meter.files.Add(1)
	}
	return nil
}

// linkMember does nothing if the name is already one of the first's.
func (c *copier) linkMember(from int, first, m member) error {
	at, err := c.dst.open(m.dir)
	if err != nil {
		return &fault{target, "opening the directory", m.dir.path(), err}
	}
	defer unix.Close(at)
	want, err := lstatat(from, first.entry().name)
	if err != nil {
		return &fault{target, "looking at", first.path(), err}
	}
	if have, err := lstatat(at, m.entry().name); err == nil && have.Ino == want.Ino {
		c.skipped.Add(1)
		return nil
	}
	tmp, err := c.makeTemp(m.dir, func(name string) error {
		return unix.Linkat(from, first.entry().name, at, name, 0)
	})
	if err != nil {
		return &fault{target, "linking " + quote(first.path()) + " to", m.path(), err}
	}
	c.files.Add(1)
	return c.install(at, tmp, m.dir, m.entry())
}
