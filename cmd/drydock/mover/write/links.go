//go:build linux

package write

import (
	"context"
	"sync"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/fault"
	"drydock.dev/cmd/drydock/mover/fsys"
	"drydock.dev/cmd/drydock/mover/pool"
	"drydock.dev/cmd/drydock/mover/target"
	"drydock.dev/cmd/drydock/mover/tree"
)

// Links makes the further names of hard links.
type Links struct {
	*tree.Job
	Own         *target.Owner
	inodeOwners sync.Map // inode of the target → the *group that uses it
}

// Link creates the other names of every group.
func (l *Links) Link(ctx context.Context) error {
	return pool.Run(ctx, l.Workers, func(p *pool.Pool) {
		for _, g := range l.Tree.Groups {
			p.Add(func(context.Context) error { return l.Problems.Collect(l.linkGroup(g)) })
		}
	})
}

func (l *Links) linkGroup(g *tree.Group) error {
	first := g.Names[0]
	if g.Failed.Load() || first.Dir.Excluded {
		return nil // the reason was collected
	}
	from, err := l.Dst.Open(first.Dir.Path())
	if err != nil {
		return fault.New(fault.Target, "opening the directory", first.Dir.Path(), err)
	}
	defer unix.Close(from)
	for _, m := range g.Names[1:] {
		if m.Dir.Excluded {
			continue
		}
		if err := l.Problems.Collect(l.linkOther(from, first, m)); err != nil {
			return err
		}
		l.Meter.Files.Add(1)
	}
	return nil
}

// linkOther links a name to the group's first name, unless it is linked already.
func (l *Links) linkOther(from int, first, m tree.LinkName) error {
	at, err := l.Dst.Open(m.Dir.Path())
	if err != nil {
		return fault.New(fault.Target, "opening the directory", m.Dir.Path(), err)
	}
	defer unix.Close(at)
	want, err := fsys.Lstatat(from, first.Name)
	if err != nil {
		return fault.New(fault.Target, "looking at", first.Path(), err)
	}
	if have, err := fsys.Lstatat(at, m.Name); err == nil && have.Ino == want.Ino {
		l.Done.Skipped.Add(1)
		return nil
	}
	if err := l.Own.CheckOwned(); err != nil {
		return err
	}
	tmp, err := l.Own.MakeTemp(m.Dir, func(name string) error {
		return unix.Linkat(from, first.Name, at, name, 0)
	})
	if err != nil {
		return fault.New(fault.Target, "linking "+fault.Quote(first.Path())+" to", m.Path(), err)
	}
	l.Done.Files.Add(1)
	return l.Own.Install(at, tmp, m.Dir, m.Name)
}

// isOwnInode reports whether a name without hard links has a separate inode, or whether no other group uses the inode of
// a name with hard links.
func (l *Links) isOwnInode(have *fsys.Meta, g *tree.Group) bool {
	if g == nil {
		return have.Nlink == 1
	}
	keeper, _ := l.inodeOwners.LoadOrStore(have.Inode(), g)
	return keeper == g
}
