//go:build linux

package mover

import (
	"cmp"
	"context"
	"strings"

	"golang.org/x/sys/unix"
)

// clean removes two kinds of names from a directory of the target: names that the source does not have, and names that
// are a directory on one side only. The rename that replaces the old entry handles other changes of type.
func (o *owner) clean(ctx context.Context, fd int, d *dir) error {
	names, err := readdir(fd)
	if err != nil {
		return newFault(target, "reading the directory", d.path(), err)
	}
	d.fresh = d.fresh || !containsName(names, func(n dirent) bool { return !d.isLostFound(n.name) && !o.isOwnName(d, n.name) })
	known := finder{dir: d}
	for n := range names.all() {
		if o.isOwnName(d, n.name) {
			continue
		}
		keep, err := o.emptyLostFound(ctx, fd, d, n.name)
		if err := o.problems.collect(err); err != nil {
			return err
		}
		if keep {
			continue
		}
		if n.kind == 0 {
			st, err := lstatat(fd, n.name)
			if err != nil {
				return newFault(target, "looking at", d.join(n.name), err)
			}
			n.kind = st.Mode & unix.S_IFMT
		}
		e := known.find(n.name)
		if e != nil && e.meta.isDir() == (n.kind == unix.S_IFDIR) {
			continue
		}
		r := remover{own: o, path: d.join(n.name)}
		if err := o.problems.collect(r.removeTree(ctx, fd, n)); err != nil {
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

// emptyLostFound handles the target's lost+found if the source has none to copy, and reports whether it stays. If mkfs
// created it and an earlier pass copied files into it, these files are deleted.
func (o *owner) emptyLostFound(ctx context.Context, root int, d *dir, name string) (bool, error) {
	if !d.isLostFound(name) || d.find(name) != nil {
		return false, nil
	}
	state, err := lostFoundIn(root)
	if err != nil || state != lostFoundOrdinary {
		return true, err
	}
	st, err := statEntry(root, lostFound)
	if err != nil || !isMadeByMkfs(&st) {
		return false, err
	}
	r := remover{own: o, path: lostFound}
	fd, err := openUsable(root, lostFound)
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
	own     *owner
	path    string // the removed entry, for messages
	hoisted []string
}

// maxDepth is how many directories the remover keeps open at once.
const maxDepth = 64

func (r *remover) removeTree(ctx context.Context, parent int, n dirent) error {
	if err := r.remove(ctx, parent, n, 0); err != nil {
		return err
	}
	return r.removeHoisted(ctx)
}

func (r *remover) removeHoisted(ctx context.Context) error {
	for len(r.hoisted) > 0 {
		name := r.hoisted[len(r.hoisted)-1]
		r.hoisted = r.hoisted[:len(r.hoisted)-1]
		if err := r.remove(ctx, r.own.dst.fd, dirent{name, unix.S_IFDIR}, 0); err != nil {
			return err
		}
	}
	return nil
}

func (r *remover) remove(ctx context.Context, parent int, n dirent, depth int) error {
	r.own.meter.steps.Add(1)
	if err := cmp.Or(context.Cause(ctx), r.own.checkOwned()); err != nil {
		return err
	}
	flags := 0
	if n.kind == unix.S_IFDIR {
		flags = unix.AT_REMOVEDIR
	}
	err := ignoringEINTR(func() error { return unix.Unlinkat(parent, n.name, flags) })
	if n.kind == 0 && err == unix.EISDIR {
		return r.remove(ctx, parent, dirent{n.name, unix.S_IFDIR}, depth)
	}
	if n.kind == unix.S_IFDIR && (err == unix.ENOTEMPTY || err == unix.EEXIST || err == unix.EACCES) {
		if depth == maxDepth {
			return r.hoist(parent, n.name)
		}
		if err := r.emptyDir(ctx, parent, n.name, depth); err != nil {
			return err
		}
		err = ignoringEINTR(func() error { return unix.Unlinkat(parent, n.name, flags) })
	}
	if err != nil {
		return r.fault("deleting", err)
	}
	if !strings.HasPrefix(n.name, tempPrefix) {
		r.own.done.deleted.Add(1)
	}
	return nil
}

func (r *remover) emptyDir(ctx context.Context, parent int, name string, depth int) error {
	fd, err := openUsable(parent, name)
	if err != nil {
		return r.fault("opening for deletion", err)
	}
	defer unix.Close(fd)
	st, err := fstat(fd)
	if err == nil && st.Dev != r.own.dst.dev {
		err = errMountHere
	}
	if err != nil {
		return r.fault("deleting", err)
	}
	return r.deleteContents(ctx, fd, depth+1)
}

// deleteContents deletes everything in an open directory.
func (r *remover) deleteContents(ctx context.Context, fd, depth int) error {
	names, err := readdir(fd)
	if err != nil {
		return r.fault("reading for deletion", err)
	}
	for n := range names.all() {
		if err := r.remove(ctx, fd, n, depth); err != nil {
			return err
		}
	}
	return nil
}

// hoist moves a directory to the target's root. It is removed from there later.
func (r *remover) hoist(parent int, name string) error {
	if fd, err := openUsable(parent, name); err == nil {
		unix.Close(fd) // moving a directory writes its ".."
	}
	tmp, err := r.own.makeTemp(r.own.tree.top, func(tmp string) error {
		err := unix.Renameat(parent, name, r.own.dst.fd, tmp)
		if err == unix.ENOTEMPTY || err == unix.ENOTDIR { // a leftover has the name
			err = unix.EEXIST
		}
		return err
	})
	if err != nil {
		return r.fault("moving for deletion", err)
	}
	r.hoisted = append(r.hoisted, tmp)
	r.own.done.deleted.Add(1)
	return nil
}

func (r *remover) fault(op string, err error) error {
	return newFault(target, op, r.path, err)
}
