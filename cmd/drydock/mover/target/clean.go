//go:build linux

package target

import (
	"cmp"
	"context"
	"strings"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/fault"
	"drydock.dev/cmd/drydock/mover/fsys"
	"drydock.dev/cmd/drydock/mover/tree"
)

// Clean removes two kinds of names from a directory of the target: names that the source does not have, and names that
// are a directory on one side only. The rename that replaces the old entry handles other changes of type. It leaves a directory alone whose
// scan has missed something: a file may have had another name for an instant.
func (o *Owner) Clean(ctx context.Context, fd int, d *tree.Dir) error {
	if d.Unread.Load() {
		return nil
	}
	names, err := fsys.Readdir(fd)
	if err != nil {
		return fault.New(fault.Target, "reading the directory", d.Path(), err)
	}
	d.Fresh = d.Fresh || !containsName(names, func(n fsys.Dirent) bool { return !d.IsLostFound(n.Name) && !o.IsOwnName(d, n.Name) })
	known := tree.Finder{Dir: d}
	for n := range names.All() {
		if o.IsOwnName(d, n.Name) {
			continue
		}
		keep, err := o.emptyLostFound(ctx, fd, d, n.Name)
		if err := o.Problems.Collect(err); err != nil {
			return err
		}
		if keep {
			continue
		}
		if n.Kind == 0 {
			st, err := fsys.Lstatat(fd, n.Name)
			if err != nil {
				return fault.New(fault.Target, "looking at", d.Join(n.Name), err)
			}
			n.Kind = st.Mode & unix.S_IFMT
		}
		e := known.Find(n.Name)
		if e != nil && e.Meta.IsDir() == (n.Kind == unix.S_IFDIR) {
			continue
		}
		r := remover{own: o, path: d.Join(n.Name)}
		if err := o.Problems.Collect(r.removeTree(ctx, fd, n)); err != nil {
			return err
		}
	}
	return nil
}

// containsName reports whether a name of the list satisfies a condition.
func containsName(l fsys.NameList, condition func(fsys.Dirent) bool) bool {
	for n := range l.All() {
		if condition(n) {
			return true
		}
	}
	return false
}

// emptyLostFound handles the target's lost+found if the source has none to copy, and reports whether it stays. If mkfs
// created it and an earlier pass copied files into it, these files are deleted.
func (o *Owner) emptyLostFound(ctx context.Context, root int, d *tree.Dir, name string) (bool, error) {
	if !d.IsLostFound(name) || d.Find(name) != nil {
		return false, nil
	}
	state, err := tree.LostFoundIn(root)
	if err != nil || state != tree.LostFoundOrdinary {
		return true, err
	}
	st, err := fsys.StatEntry(root, tree.LostFound)
	if err != nil || !tree.IsMadeByMkfs(&st) {
		return false, err
	}
	r := remover{own: o, path: tree.LostFound}
	fd, err := fsys.OpenUsable(root, tree.LostFound)
	if err != nil {
		return true, r.fault("opening for deletion", err)
	}
	defer unix.Close(fd)
	if err := r.deleteContents(ctx, fd, 1); err != nil {
		return true, err
	}
	return true, r.removeHoisted(ctx)
}

// remover deletes one entry of the target and everything below it. It needs few descriptors at any depth: it moves
// directories deeper than maxDepth to the root first, under temporary names.
type remover struct {
	own     *Owner
	path    string // the removed entry, for messages
	hoisted []string
}

// maxDepth is how many directories the remover keeps open at once.
const maxDepth = 64

func (r *remover) removeTree(ctx context.Context, parent int, n fsys.Dirent) error {
	if err := r.remove(ctx, parent, n, 0); err != nil {
		return err
	}
	return r.removeHoisted(ctx)
}

func (r *remover) removeHoisted(ctx context.Context) error {
	for len(r.hoisted) > 0 {
		name := r.hoisted[len(r.hoisted)-1]
		r.hoisted = r.hoisted[:len(r.hoisted)-1]
		if err := r.remove(ctx, r.own.Dst.Fd, fsys.Dirent{Name: name, Kind: unix.S_IFDIR}, 0); err != nil {
			return err
		}
	}
	return nil
}

func (r *remover) remove(ctx context.Context, parent int, n fsys.Dirent, depth int) error {
	r.own.Meter.Steps.Add(1)
	if err := cmp.Or(context.Cause(ctx), r.own.CheckOwned()); err != nil {
		return err
	}
	flags := 0
	if n.Kind == unix.S_IFDIR {
		flags = unix.AT_REMOVEDIR
	}
	err := fsys.IgnoringEINTR(func() error { return unix.Unlinkat(parent, n.Name, flags) })
	if n.Kind == 0 && err == unix.EISDIR {
		return r.remove(ctx, parent, fsys.Dirent{Name: n.Name, Kind: unix.S_IFDIR}, depth)
	}
	if n.Kind == unix.S_IFDIR && (err == unix.ENOTEMPTY || err == unix.EEXIST || err == unix.EACCES) {
		if depth == maxDepth {
			return r.hoist(parent, n.Name)
		}
		if err := r.emptyDir(ctx, parent, n.Name, depth); err != nil {
			return err
		}
		err = fsys.IgnoringEINTR(func() error { return unix.Unlinkat(parent, n.Name, flags) })
	}
	if err != nil {
		return r.fault("deleting", err)
	}
	if !strings.HasPrefix(n.Name, TempPrefix) {
		r.own.Done.Deleted.Add(1)
	}
	return nil
}

func (r *remover) emptyDir(ctx context.Context, parent int, name string, depth int) error {
	fd, err := fsys.OpenUsable(parent, name)
	if err != nil {
		return r.fault("opening for deletion", err)
	}
	defer unix.Close(fd)
	if err := r.own.Dst.CheckEntered(fd); err != nil {
		return r.fault("deleting", err)
	}
	return r.deleteContents(ctx, fd, depth+1)
}

// deleteContents deletes everything in an open directory.
func (r *remover) deleteContents(ctx context.Context, fd, depth int) error {
	names, err := fsys.Readdir(fd)
	if err != nil {
		return r.fault("reading for deletion", err)
	}
	for n := range names.All() {
		if err := r.remove(ctx, fd, n, depth); err != nil {
			return err
		}
	}
	return nil
}

// hoist moves a directory to the target's root. It is removed from there later.
func (r *remover) hoist(parent int, name string) error {
	if fd, err := fsys.OpenUsable(parent, name); err == nil {
		unix.Close(fd) // moving a directory writes its ".."
	}
	tmp, err := r.own.MakeTemp(r.own.Tree.Top, func(tmp string) error {
		err := unix.Renameat(parent, name, r.own.Dst.Fd, tmp)
		if err == unix.ENOTEMPTY || err == unix.ENOTDIR { // a leftover has the name
			err = unix.EEXIST
		}
		return err
	})
	if err != nil {
		return r.fault("moving for deletion", err)
	}
	r.hoisted = append(r.hoisted, tmp)
	r.own.Done.Deleted.Add(1)
	return nil
}

func (r *remover) fault(op string, err error) error {
	return fault.New(fault.Target, op, r.path, err)
}
