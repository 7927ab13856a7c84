//go:build linux

package mover

import (
	"cmp"
	"context"
	"strings"

	"golang.org/x/sys/unix"
)

// copyRegular writes a new file and gives it its name when it is complete.
func (c *copier) copyRegular(ctx context.Context, at pair, e *entry, in input) error {
	out, tmp, err := c.createTemp(at, e)
	if err != nil {
		return err
	}
	err = c.writeTemp(ctx, at, e, in, out)
	torn := err != nil && c.keepsIncomplete(e, err) && c.checkOwned() == nil && opened(out).chmod(0o600) == nil
	if cerr := unix.Close(out); err == nil && cerr != nil && cerr != unix.EINTR { // a network file system reports its quota here
		err = at.fault(target, "closing", e, cerr)
	}
	switch {
	case err == nil:
		return c.install(at.dst, tmp, at.dir, e.name)
	case torn && c.install(at.dst, tmp, at.dir, e.name) == nil:
		c.invalidate(at.dst, e)
	default:
		c.discard(at.dst, tmp)
	}
	return err
}

// keepsIncomplete reports whether a file that changed while it was copied stays in the target. Without it, the final
// pass would have to copy all of a big file that is constantly written to. With it, that pass writes only the blocks
// that differ.
func (c *copier) keepsIncomplete(e *entry, err error) bool {
	return c.pass == PassFirst && c.isBig(e) && kindOf(err) == kindChanged
}

// openSource opens a file and checks that it is the scanned one.
func (c *copier) openSource(at pair, e *entry) (input, error) {
	in, err := openat(at.src, e.name, unix.O_RDONLY, 0)
	if err == nil && c.hooks.source != nil {
		if err = c.hooks.source("opening", at.dir.join(e.name)); err != nil {
			unix.Close(in)
		}
	}
	if err != nil {
		return input{}, at.fault(source, "opening", e, err)
	}
	st, err := c.checkUnchanged(at, e, in)
	if err != nil {
		unix.Close(in)
		return input{}, err
	}
	c.noteFileLosses(in, &st, at.dir, e)
	return input{in, dataBytes(&st)}, nil
}

// checkUnchanged fails if an open source file has changed since the scan. It returns the file's stat.
func (c *copier) checkUnchanged(at pair, e *entry, in int) (unix.Stat_t, error) {
	st, err := fstat(in)
	if err == nil && metaOf(&st) != e.meta {
		err = errChanged
	}
	if err != nil {
		err = at.fault(source, "reading", e, err)
	}
	return st, err
}

// createTemp creates a file that no other process may open until it is complete.
func (c *copier) createTemp(at pair, e *entry) (out int, tmp string, err error) {
	tmp, err = c.makeEntry(at.dir, e, func(name string) (err error) {
		out, err = openat(at.dst, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0)
		return err
	})
	if err != nil {
		return -1, "", at.fault(target, opCreating, e, err)
	}
	return out, tmp, nil
}

// writeTemp fills a new file. The owner comes first: if that is denied, there is nothing to copy. Changing the owner and
// writing clear attributes that setAttributes sets afterwards.
func (c *copier) writeTemp(ctx context.Context, at pair, e *entry, in input, out int) error {
	attrs, err := opened(in.fd).xattrs(c.notCarried(at.dir, e.name))
	if err != nil {
		return at.fault(source, "reading extended attributes of", e, err)
	}
	if len(attrs) > 0 {
		e.copied = nil // the verification has to read them anyway
	}
	if op, err := setOwner(opened(out), &e.meta); err != nil {
		return at.fault(target, op, e, err)
	}
	if flags := c.src.flagsOf(in.fd); flags != 0 || at.dir.flags != 0 { // a new file inherits the flags of its directory
		e.copied = nil // the verification has to open the source for its flags anyway
		if err := c.setFlags(out, at.dir.join(e.name), flags); err != nil {
			return err
		}
	}
	if err := cmp.Or(c.copyData(ctx, at, e, in, out), c.checkOwned()); err != nil {
		return err
	}
	if op, err := setAttributes(opened(out), &e.meta, attrs); err != nil {
		return at.fault(target, op, e, err)
	}
	if op, err := checkAttributes(opened(out), &e.meta); err != nil {
		return at.fault(target, op, e, err)
	}
	if c.hooks.copying != nil {
		c.hooks.copying(at.dir.join(e.name))
	}
	_, err = c.checkUnchanged(at, e, in.fd)
	return err
}

// notCarried returns a function that records attributes of a name that are not copied.
func (c *copier) notCarried(d *dir, name string) func(attribute string) {
	return func(attribute string) {
		c.problems.omit("the extended attribute "+quote(attribute), notCopied, strings.TrimSuffix(d.join(name), "/"))
	}
}

// copySpecial creates a symbolic link, fifo, socket or device.
func (c *copier) copySpecial(at pair, e *entry) error {
	attrs, err := named(at.src, e.name).xattrs(c.notCarried(at.dir, e.name))
	if err != nil {
		return at.fault(source, "reading extended attributes of", e, err)
	}
	link := ""
	if e.meta.isSymlink() {
		if link, err = readlinkat(at.src, e.name); err != nil {
			return at.fault(source, "reading the link", e, err)
		}
	}
	tmp, err := c.makeEntry(at.dir, e, func(name string) error {
		if e.meta.isSymlink() {
			return unix.Symlinkat(link, at.dst, name)
		}
		return unix.Mknodat(at.dst, name, e.meta.kind()|0o600, int(e.meta.size))
	})
	if err != nil {
		return at.fault(target, opCreating, e, err)
	}
	if err := c.setSpecialAttributes(at, e, named(at.dst, tmp), attrs); err != nil {
		c.discard(at.dst, tmp)
		return err
	}
	return c.install(at.dst, tmp, at.dir, e.name)
}

func (c *copier) setSpecialAttributes(at pair, e *entry, o object, attrs []xattr) error {
	op, err := setOwner(o, &e.meta)
	if err == nil {
		op, err = setAttributes(o, &e.meta, attrs)
	}
	if err == nil {
		op, err = checkAttributes(o, &e.meta)
	}
	if err != nil {
		return at.fault(target, op, e, err)
	}
	st, err := lstatat(at.src, e.name)
	if err == nil && metaOf(&st) != e.meta {
		err = errChanged
	}
	if err != nil {
		return at.fault(source, "looking at", e, err)
	}
	return nil
}
