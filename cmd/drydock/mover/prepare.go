//go:build linux

package mover

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// prepare deletes names that the source does not have and creates all directories, still private. Doing this for the
// whole tree before any file is copied frees the most space.
func (c *copier) prepare(ctx context.Context) error {
	return runPool(ctx, c.workers, func(p *pool) { p.add(c.prepareDir(p, c.tree.top)) })
}

func (c *copier) prepareDir(p *pool, d *dir) task {
	return func(ctx context.Context) error {
		fd, err := c.dst.open(d)
		if err != nil {
			d.exclude()
			return c.problems.collect(&fault{target, "opening the directory", d.path(), err})
		}
		defer unix.Close(fd)
		c.meter.steps.Add(1)
		if err := c.checkOwned(); err != nil {
			return err
		}
		if err := c.problems.collect(c.setDirFlags(fd, d)); err != nil {
			return err
		}
		if err := c.problems.collect(c.clean(ctx, fd, d)); err != nil {
			return err
		}
		for sub := range d.subs() {
			err := c.makeDir(fd, d, sub)
			if err == nil {
				p.add(c.prepareDir(p, sub))
			} else {
				sub.exclude()
			}
			if err := c.problems.collect(err); err != nil {
				return err
			}
		}
		return nil
	}
}

// makeDir creates a directory, unless it exists, and checks that this process can use it and that it is on the target's
// file system.
func (c *copier) makeDir(parent int, d, sub *dir) error {
	name := sub.self.name
	err := ignoringEINTR(func() error { return unix.Mkdirat(parent, name, 0o700) })
	if err != nil && err != unix.EEXIST {
		return &fault{target, opMaking, d.join(name), err}
	}
	sub.fresh = err == nil
	fd, err := openUsable(parent, name)
	if err != nil {
		return &fault{target, "opening the directory", d.join(name), err}
	}
	defer unix.Close(fd)
	st, err := fstat(fd)
	if err == nil && st.Dev != c.dst.dev {
		err = errMountHere
	}
	if err != nil {
		return &fault{target, "using the directory", d.join(name), err}
	}
	return nil
}

// finish sets the attributes of all directories, children first: the final mode of a directory may deny this process
// access to the directories in it.
func (c *copier) finish(ctx context.Context) error {
	for hi := len(c.tree.dirs); hi > 0; {
		lo := hi - 1
		for depth := c.tree.dirs[lo].depth; lo > 0 && c.tree.dirs[lo-1].depth == depth; {
			lo--
		}
		if err := c.finishDirs(ctx, c.tree.dirs[lo:hi]); err != nil {
			return err
		}
		hi = lo
	}
	return nil
}

// finishDirs sets the attributes of directories of the same depth.
func (c *copier) finishDirs(ctx context.Context, dirs []*dir) error {
	var next atomic.Int64
	return runPool(ctx, c.workers, func(p *pool) {
		for range c.workers {
			p.add(func(ctx context.Context) error {
				for i := next.Add(1) - 1; i < int64(len(dirs)); i = next.Add(1) - 1 {
					if err := context.Cause(ctx); err != nil {
						return err
					}
					c.meter.steps.Add(1)
					d := dirs[i]
					if d.excluded {
						continue
					}
					err := c.finishDir(d)
					c.noteChange(d, err)
					if err := c.problems.collect(err); err != nil {
						return err
					}
				}
				return nil
			})
		}
	})
}

func (c *copier) finishDir(d *dir) error {
	attrs, err := c.sourceDirXattrs(d)
	if err != nil {
		return err
	}
	fd, err := c.dst.open(d)
	if err != nil {
		return &fault{target, "opening the directory", d.path(), err}
	}
	defer unix.Close(fd)
	if err := c.checkOwned(); err != nil {
		return err
	}
	if d.parent == nil && os.Geteuid() != 0 {
		return c.finishForeignRoot(fd, attrs)
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
		return &fault{target, op, d.path(), err}
	}
	return nil
}

// hasAttributes reports whether an object has these attributes already.
func hasAttributes(o object, want *meta, attrs []xattr) bool {
	st, err := o.stat()
	have := metaOf(&st)
	if err != nil || !sameAttributes(want, &have) {
		return false
	}
	other, err := o.xattrs(nil)
	return err == nil && sameXattrs(attrs, other)
}

func (c *copier) sourceDirXattrs(d *dir) ([]xattr, error) {
	fd, err := c.src.open(d)
	if err != nil {
		return nil, &fault{source, "opening the directory", d.path(), err}
	}
	defer unix.Close(fd)
	if d.parent != nil {
		c.noteLosses(fd, d.path)
	}
	attrs, err := opened(fd).xattrs(c.notCarried(d, ""))
	if err != nil {
		return nil, &fault{source, "reading extended attributes of", d.path(), err}
	}
	return attrs, nil
}

// sameAttributes reports whether two inodes have the same type, mode, owner, group, size and modification time. It ignores
// extended attributes and contents.
func sameAttributes(a, b *meta) bool {
	return a.kind() == b.kind() && a.permissions() == b.permissions() && a.uid == b.uid && a.gid == b.gid &&
		a.size == b.size && a.mtimeSec == b.mtimeSec && a.mtimeNsec == b.mtimeNsec
}

// setOwner sets owner and group if they differ. Call it first on a new entry: a missing right is found before the
// contents are copied, and the later steps set again the bits and attributes that the kernel clears at a change of owner.
func setOwner(o object, want *meta) (op string, err error) {
	st, err := o.stat()
	if err != nil {
		return "looking at", err
	}
	uid, gid := -1, -1
	if st.Uid != want.uid {
		uid = int(want.uid)
	}
	if st.Gid != want.gid {
		gid = int(want.gid)
	}
	if uid == -1 && gid == -1 {
		return "", nil
	}
	op = "setting owner " + strconv.Itoa(int(want.uid)) + ":" + strconv.Itoa(int(want.gid)) + " on"
	return op, o.chown(uid, gid)
}

// setAttributes sets the extended attributes, then the mode, then the times. The mode comes after the ACLs, because an ACL
// changes it. Call setAttributes last: a change of the owner or the contents would undo a part of it.
func setAttributes(o object, want *meta, attrs []xattr) (op string, err error) {
	if err := o.setXattrs(attrs); err != nil {
		return "setting extended attributes on", err
	}
	if !want.isSymlink() {
		if err := setMode(o, want.permissions()); err != nil {
			return "setting mode 0" + strconv.FormatUint(uint64(want.permissions()), 8) + " on", err
		}
	}
	return "setting the time of", o.setTimes(want.times())
}

// checkAttributes reads the attributes again and returns an error if they differ from the ones set. An inode may be too
// small for nanoseconds, and a network file system may silently ignore owner and mode.
func checkAttributes(o object, want *meta) (op string, err error) {
	st, err := o.stat()
	if err != nil {
		return "looking at", err
	}
	have := metaOf(&st)
	if sameAttributes(want, &have) {
		return "", nil
	}
	return "keeping the attributes of", fmt.Errorf("%w: %s", errNotKept, strings.Join(attributeDifferences(want, &have), ", "))
}

// setMode sets the mode. If the mode has set-id bits, setMode reads it again and returns an error if the kernel has dropped
// one. The kernel silently drops setgid if the process is not in the group and lacks CAP_FSETID.
func setMode(o object, mode uint32) error {
	if err := o.chmod(mode); err != nil || mode&(unix.S_ISUID|unix.S_ISGID) == 0 {
		return err
	}
	st, err := o.stat()
	if err == nil && st.Mode&^unix.S_IFMT != mode {
		err = errDropped
	}
	return err
}
