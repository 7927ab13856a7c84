//go:build linux

package mover

import (
	"context"
	"sync"

	"golang.org/x/sys/unix"
)

// linker makes the further names of hard links.
type linker struct {
	*job
	own         *owner
	inodeOwners sync.Map // inode of the target → the *group that uses it
}

// link creates the other names of every group.
func (l *linker) link(ctx context.Context) error {
	return runPool(ctx, l.workers, func(p *pool) {
		for _, g := range l.tree.groups {
			p.add(func(context.Context) error { return l.problems.collect(l.linkGroup(g)) })
		}
	})
}

func (l *linker) linkGroup(g *group) error {
	first := g.names[0]
	if g.failed.Load() || first.dir.excluded {
		return nil // the reason was collected
	}
	from, err := l.dst.open(first.dir)
	if err != nil {
		return newFault(target, "opening the directory", first.dir.path(), err)
	}
	defer unix.Close(from)
	for _, m := range g.names[1:] {
		if m.dir.excluded {
			continue
		}
		if err := l.problems.collect(l.linkOther(from, first, m)); err != nil {
			return err
		}
		l.meter.files.Add(1)
	}
	return nil
}

// linkOther links a name to the group's first name, unless it is linked already.
func (l *linker) linkOther(from int, first, m linkName) error {
	at, err := l.dst.open(m.dir)
	if err != nil {
		return newFault(target, "opening the directory", m.dir.path(), err)
	}
	defer unix.Close(at)
	want, err := lstatat(from, first.name)
	if err != nil {
		return newFault(target, "looking at", first.path(), err)
	}
	if have, err := lstatat(at, m.name); err == nil && have.Ino == want.Ino {
		l.done.skipped.Add(1)
		return nil
	}
	if err := l.own.checkOwned(); err != nil {
		return err
	}
	tmp, err := l.own.makeTemp(m.dir, func(name string) error {
		return unix.Linkat(from, first.name, at, name, 0)
	})
	if err != nil {
		return newFault(target, "linking "+quote(first.path())+" to", m.path(), err)
	}
	l.done.files.Add(1)
	return l.own.install(at, tmp, m.dir, m.name)
}

// isOwnInode reports whether a name without hard links has a separate inode, or whether no other group uses the inode of
// a name with hard links.
func (l *linker) isOwnInode(have *meta, g *group) bool {
	if g == nil {
		return have.nlink == 1
	}
	keeper, _ := l.inodeOwners.LoadOrStore(have.inode(), g)
	return keeper == g
}
