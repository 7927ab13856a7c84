//go:build linux

package write

import (
	"context"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/fault"
	"drydock.dev/cmd/drydock/mover/fsys"
	"drydock.dev/cmd/drydock/mover/pool"
	"drydock.dev/cmd/drydock/mover/target"
	"drydock.dev/cmd/drydock/mover/tree"
)

// Dirs makes the directories of the target.
type Dirs struct {
	*tree.Job
	Own     *target.Owner
	Roots   *target.Roots
	Flags   *Flags
	Content *Contents
}

// Prepare deletes names that the source does not have and creates all directories, still private. Doing this for the
// whole tree before any file is copied frees the most space.
func (w *Dirs) Prepare(ctx context.Context) error {
	return pool.Run(ctx, w.Workers, func(p *pool.Pool) { p.Add(w.prepareDir(p, w.Tree.Top)) })
}

func (w *Dirs) prepareDir(p *pool.Pool, d *tree.Dir) pool.Task {
	return func(ctx context.Context) error {
		fd, err := w.Dst.Open(d.Path())
		if err != nil {
			d.Exclude()
			return w.Problems.Collect(fault.New(fault.Target, "opening the directory", d.Path(), err))
		}
		defer unix.Close(fd)
		w.Meter.Steps.Add(1)
		if err := w.Own.CheckOwned(); err != nil {
			return err
		}
		if err := w.Problems.Collect(w.Flags.setDirFlags(fd, d)); err != nil {
			return err
		}
		if err := w.Problems.Collect(w.Own.Clean(ctx, fd, d)); err != nil {
			return err
		}
		for sub := range d.Subs() {
			err := w.makeDir(fd, d, sub)
			if err == nil {
				p.Add(w.prepareDir(p, sub))
			} else {
				sub.Exclude()
			}
			if err := w.Problems.Collect(err); err != nil {
				return err
			}
		}
		return nil
	}
}

// makeDir creates a directory, unless it exists, and checks that this process can use it and that it is on the target's
// file system.
func (w *Dirs) makeDir(parent int, d, sub *tree.Dir) error {
	name := sub.Self.Name
	if err := w.Own.CheckOwned(); err != nil {
		return err
	}
	err := fsys.IgnoringEINTR(func() error { return unix.Mkdirat(parent, name, 0o700) })
	if err != nil && err != unix.EEXIST {
		return fault.New(fault.Target, fault.OpMaking, d.Join(name), err)
	}
	sub.Fresh = err == nil
	fd, err := fsys.OpenUsable(parent, name)
	if err != nil {
		return fault.New(fault.Target, "opening the directory", d.Join(name), err)
	}
	defer unix.Close(fd)
	if err := w.Dst.CheckEntered(fd); err != nil {
		return fault.New(fault.Target, "using the directory", d.Join(name), err)
	}
	return nil
}

// Finish sets the attributes of all directories, children first: the final mode of a directory may deny this process
// access to the directories in it.
func (w *Dirs) Finish(ctx context.Context) error {
	for hi := len(w.Tree.Dirs); hi > 0; {
		lo := hi - 1
		for depth := w.Tree.Dirs[lo].Depth; lo > 0 && w.Tree.Dirs[lo-1].Depth == depth; {
			lo--
		}
		if err := w.finishDirs(ctx, w.Tree.Dirs[lo:hi]); err != nil {
			return err
		}
		hi = lo
	}
	return nil
}

// finishDirs sets the attributes of directories of the same depth.
func (w *Dirs) finishDirs(ctx context.Context, dirs []*tree.Dir) error {
	var next atomic.Int64
	return pool.Run(ctx, w.Workers, func(p *pool.Pool) {
		for range w.Workers {
			p.Add(func(ctx context.Context) error {
				for i := next.Add(1) - 1; i < int64(len(dirs)); i = next.Add(1) - 1 {
					if err := context.Cause(ctx); err != nil {
						return err
					}
					w.Meter.Steps.Add(1)
					d := dirs[i]
					if d.Excluded {
						continue
					}
					err := w.FinishDir(d)
					w.NoteChange(d, err)
					if err := w.Problems.Collect(err); err != nil {
						return err
					}
				}
				return nil
			})
		}
	})
}

func (w *Dirs) FinishDir(d *tree.Dir) error {
	attrs, err := w.sourceDirXattrs(d)
	if err != nil {
		return err
	}
	fd, err := w.Dst.Open(d.Path())
	if err != nil {
		return fault.New(fault.Target, "opening the directory", d.Path(), err)
	}
	defer unix.Close(fd)
	if err := w.Own.CheckOwned(); err != nil {
		return err
	}
	if d.Parent == nil && os.Geteuid() != 0 {
		return w.Roots.FinishForeignRoot(fd, attrs)
	}
	if fsys.HasAttributes(fsys.Opened(fd), &d.Self.Meta, attrs) { // setting them again would change ctime
		return nil
	}
	op, err := fsys.SetOwner(fsys.Opened(fd), &d.Self.Meta)
	if err == nil {
		op, err = fsys.SetAttributes(fsys.Opened(fd), &d.Self.Meta, attrs)
	}
	if err == nil {
		op, err = fsys.CheckAttributes(fsys.Opened(fd), &d.Self.Meta)
	}
	if err != nil {
		return fault.New(fault.Target, op, d.Path(), err)
	}
	return nil
}

func (w *Dirs) sourceDirXattrs(d *tree.Dir) ([]fsys.Xattr, error) {
	fd, err := w.Src.Open(d.Path())
	if err != nil {
		return nil, fault.New(fault.Source, "opening the directory", d.Path(), err)
	}
	defer unix.Close(fd)
	if d.Parent != nil {
		w.Flags.noteLosses(fd, d.Path)
	}
	attrs, err := fsys.Opened(fd).Xattrs(w.Content.notCarried(d, ""))
	if err != nil {
		return nil, fault.New(fault.Source, "reading extended attributes of", d.Path(), err)
	}
	return attrs, nil
}
