//go:build linux

package mover

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// tempPrefix begins the names of incomplete files. A killed run leaves some of them behind. The next run deletes them,
// like all names that the source does not have. The source may contain such names, too.
const tempPrefix = ".drydock-copy-"

// makeTemp calls create with temporary names until a name is free in the target. It skips names that occur in the
// source's directory d.
func (c *copier) makeTemp(d *dir, create func(name string) error) (string, error) {
	for {
		name := tempPrefix + strconv.FormatUint(c.temps.Add(1), 36)
		if d.find(name) != nil {
			continue
		}
		err := ignoringEINTR(func() error { return create(name) })
		if err == unix.EEXIST {
			continue
		}
		return name, err
	}
}

// makeEntry calls create with a temporary name or, in a fresh directory, with the entry's own name: it cannot replace
// anything there. An entry that a killed run left there is recognized by its time, which is set last.
func (c *copier) makeEntry(d *dir, e *entry, create func(name string) error) (string, error) {
	if err := c.checkOwned(); err != nil {
		return "", err
	}
	if d.fresh {
		if err := ignoringEINTR(func() error { return create(e.name) }); err != unix.EEXIST {
			return e.name, err
		}
	}
	return c.makeTemp(d, create)
}

// install renames a complete file to its final name in one step, unless it already has that name.
func (c *copier) install(at int, tmp string, d *dir, name string) error {
	if tmp == name {
		return nil
	}
	if err := c.checkOwned(); err != nil {
		c.discard(at, tmp)
		return err
	}
	err := ignoringEINTR(func() error { return unix.Renameat(at, tmp, at, name) })
	if err != nil {
		c.discard(at, tmp)
		return &fault{target, "renaming to", d.join(name), err}
	}
	return nil
}

// discard removes a file that will not be completed. If this fails, the next run removes it. In a fresh directory the file has its final
// name, which may be the name of a live file if the target is no longer owned.
func (c *copier) discard(at int, tmp string) {
	if strings.HasPrefix(tmp, tempPrefix) || c.checkOwned() == nil {
		_ = unix.Unlinkat(at, tmp, 0)
	}
}

// isOwnName reports whether a name in the target belongs to the mover and stays until the copy is complete.
func (c *copier) isOwnName(d *dir, name string) bool {
	return d.parent == nil && slices.Contains(c.ownNames, name)
}

func (c *copier) addOwnName(name string) { c.ownNames = append(c.ownNames, name) }

// remover deletes one entry of the target and everything below it. It needs few descriptors at any depth: it moves
// directories deeper than maxDepth to the root first, under temporary names.
type remover struct {
	copier  *copier
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
		if err := r.remove(ctx, r.copier.dst.fd, dirent{name, unix.S_IFDIR}, 0); err != nil {
			return err
		}
	}
	return nil
}

func (r *remover) remove(ctx context.Context, parent int, n dirent, depth int) error {
	r.copier.meter.steps.Add(1)
	if err := cmp.Or(context.Cause(ctx), r.copier.checkOwned()); err != nil {
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
		r.copier.deleted.Add(1)
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
	if err == nil && st.Dev != r.copier.dst.dev {
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
	tmp, err := r.copier.makeTemp(r.copier.tree.top, func(tmp string) error {
		err := unix.Renameat(parent, name, r.copier.dst.fd, tmp)
		if err == unix.ENOTEMPTY || err == unix.ENOTDIR { // a leftover has the name
			err = unix.EEXIST
		}
		return err
	})
	if err != nil {
		return r.fault("moving for deletion", err)
	}
	r.hoisted = append(r.hoisted, tmp)
	r.copier.deleted.Add(1)
	return nil
}

func (r *remover) fault(op string, err error) error {
	return &fault{target, op, r.path, err}
}
