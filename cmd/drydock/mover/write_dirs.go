//go:build linux

package mover

import (
	"context"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// dirWriter makes the directories of the target.
type dirWriter struct {
	*job
	own     *owner
	roots   *rootDirs
	flags   *flagPolicy
	content *contentWriter
}

// prepare deletes names that the source does not have and creates all directories, still private. Doing this for the
// whole tree before any file is copied frees the most space.
func (w *dirWriter) prepare(ctx context.Context) error {
	return runPool(ctx, w.workers, func(p *pool) { p.add(w.prepareDir(p, w.tree.top)) })
}

func (w *dirWriter) prepareDir(p *pool, d *dir) task {
	return func(ctx context.Context) error {
		fd, err := w.dst.open(d)
		if err != nil {
			d.exclude()
			return w.problems.collect(newFault(target, "opening the directory", d.path(), err))
		}
		defer unix.Close(fd)
		w.meter.steps.Add(1)
		if err := w.own.checkOwned(); err != nil {
			return err
		}
		if err := w.problems.collect(w.flags.setDirFlags(fd, d)); err != nil {
			return err
		}
		if err := w.problems.collect(w.own.clean(ctx, fd, d)); err != nil {
			return err
		}
		for sub := range d.subs() {
			err := w.makeDir(fd, d, sub)
			if err == nil {
				p.add(w.prepareDir(p, sub))
			} else {
				sub.exclude()
			}
			if err := w.problems.collect(err); err != nil {
				return err
			}
		}
		return nil
	}
}

// makeDir creates a directory, unless it exists, and checks that this process can use it and that it is on the target's
// file system.
func (w *dirWriter) makeDir(parent int, d, sub *dir) error {
	name := sub.self.name
	err := ignoringEINTR(func() error { return unix.Mkdirat(parent, name, 0o700) })
	if err != nil && err != unix.EEXIST {
		return newFault(target, opMaking, d.join(name), err)
	}
	sub.fresh = err == nil
	fd, err := openUsable(parent, name)
	if err != nil {
		return newFault(target, "opening the directory", d.join(name), err)
	}
	defer unix.Close(fd)
	st, err := fstat(fd)
	if err == nil && st.Dev != w.dst.dev {
		err = errMountHere
	}
	if err != nil {
		return newFault(target, "using the directory", d.join(name), err)
	}
	return nil
}

// finish sets the attributes of all directories, children first: the final mode of a directory may deny this process
// access to the directories in it.
func (w *dirWriter) finish(ctx context.Context) error {
	for hi := len(w.tree.dirs); hi > 0; {
		lo := hi - 1
		for depth := w.tree.dirs[lo].depth; lo > 0 && w.tree.dirs[lo-1].depth == depth; {
			lo--
		}
		if err := w.finishDirs(ctx, w.tree.dirs[lo:hi]); err != nil {
			return err
		}
		hi = lo
	}
	return nil
}

// finishDirs sets the attributes of directories of the same depth.
func (w *dirWriter) finishDirs(ctx context.Context, dirs []*dir) error {
	var next atomic.Int64
	return runPool(ctx, w.workers, func(p *pool) {
		for range w.workers {
			p.add(func(ctx context.Context) error {
				for i := next.Add(1) - 1; i < int64(len(dirs)); i = next.Add(1) - 1 {
					if err := context.Cause(ctx); err != nil {
						return err
					}
					w.meter.steps.Add(1)
					d := dirs[i]
					if d.excluded {
						continue
					}
					err := w.finishDir(d)
					w.noteChange(d, err)
					if err := w.problems.collect(err); err != nil {
						return err
					}
				}
				return nil
			})
		}
	})
}

func (w *dirWriter) finishDir(d *dir) error {
	attrs, err := w.sourceDirXattrs(d)
	if err != nil {
		return err
	}
	fd, err := w.dst.open(d)
	if err != nil {
		return newFault(target, "opening the directory", d.path(), err)
	}
	defer unix.Close(fd)
	if err := w.own.checkOwned(); err != nil {
		return err
	}
	if d.parent == nil && os.Geteuid() != 0 {
		return w.roots.finishForeignRoot(fd, attrs)
	}
	if hasAttributes(opened(fd), &d.self.meta, attrs) { // setting them again would change ctime
		return nil
	}
	op, err := setOwner(opened(fd), &d.self.meta)
	if err == nil {
		op, err = setAttributes(opened(fd), &d.self.meta, attrs)
	}
	if err == nil {
		op, err = checkAttributes(opened(fd), &d.self.meta)
	}
	if err != nil {
		return newFault(target, op, d.path(), err)
	}
	return nil
}

func (w *dirWriter) sourceDirXattrs(d *dir) ([]xattr, error) {
	fd, err := w.src.open(d)
	if err != nil {
		return nil, newFault(source, "opening the directory", d.path(), err)
	}
	defer unix.Close(fd)
	if d.parent != nil {
		w.flags.noteLosses(fd, d.path)
	}
	attrs, err := opened(fd).xattrs(w.content.notCarried(d, ""))
	if err != nil {
		return nil, newFault(source, "reading extended attributes of", d.path(), err)
	}
	return attrs, nil
}
