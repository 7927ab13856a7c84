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

// writeBehindSize is how much of a file is written before the device is asked to begin with it. Otherwise the kernel
// leaves nearly everything to the flush at the end, and the device is idle while the worker reads. Files below
// writeBehindMin are left to the kernel, which writes neighbours together.
const (
	writeBehindSize = 8 << 20
	writeBehindMin  = 1 << 20
)

// copyRangeSize is the length of one copy_file_range call. Between calls the copy can stop and report its progress.
const copyRangeSize = 4 << 20

// copyRangeMin is the minimum size for copy_file_range, because smaller copies are not worth the call.
const copyRangeMin = 64 << 10

// copyData copies the data between the holes of in to the empty file out.
func (c *copier) copyData(ctx context.Context, at pair, e *entry, in input, out int) error {
	size, copied, end := e.meta.size, int64(0), int64(0)
	if size == 0 {
		return nil
	}
	for off := int64(0); off < size; {
		from, to, err := in.nextData(off, size)
		if err != nil {
			return at.fault(source, "reading", e, err)
		}
		if from < to {
			if err := c.copyRun(ctx, at, e, run{in.fd, out, from, to}); err != nil {
				return err
			}
			copied, end = copied+to-from, to
		}
		off = to
	}
	if end < size { // the file ends in a hole
		if err := c.checkOwned(); err != nil {
			return err
		}
		if err := ignoringEINTR(func() error { return unix.Ftruncate(out, size) }); err != nil {
			return at.fault(target, "extending", e, err)
		}
	}
	c.meter.correct(in.data, copied) // the total contains the estimate of the scan
	return nil
}

// run is a range of data to copy.
type run struct {
	in, out  int
	from, to int64
}

// writeBehind starts the writing of data to the device while a worker reads on.
type writeBehind struct {
	fd   int
	from int64 // not passed to the device yet
	to   int64
}

// advance runs when everything before off is written to memory. It only begins the write to the device. A failure does
// not matter here: the flush of the whole file system at the end reports errors of these writes, too.
func (b *writeBehind) advance(off int64) {
	if n := off - b.from; n >= writeBehindSize || off >= b.to && n >= writeBehindMin {
		_ = unix.SyncFileRange(b.fd, b.from, n, unix.SYNC_FILE_RANGE_WRITE)
		b.from = off
	}
}

func (c *copier) copyRun(ctx context.Context, at pair, e *entry, r run) error {
	next, written := readAhead{r.in, r.from, r.to}, writeBehind{r.out, r.from, r.to}
	for r.from < r.to {
		next.advance(r.from)
		if err := cmp.Or(context.Cause(ctx), c.checkOwned()); err != nil {
			return err
		}
		n, err := c.copySome(at, e, r)
		if err != nil {
			return err
		}
		r.from += n
		written.advance(r.from)
		c.bytes.Add(n)
		c.meter.bytes.Add(n)
		if c.hooks.wrote != nil {
			c.hooks.wrote(at.dir.join(e.name), n)
		}
		c.limit.wait(ctx, 2*n)
	}
	return nil
}

// copySome copies the beginning of a run, in the kernel if possible.
func (c *copier) copySome(at pair, e *entry, r run) (int64, error) {
	if r.to-r.from >= copyRangeMin && !c.noRange.Load() {
		from, to := r.from, r.from
		n, err := ignoringEINTRValue(func() (int, error) {
			return unix.CopyFileRange(r.in, &from, r.out, &to, int(c.limit.piece(min(r.to-r.from, copyRangeSize))), 0)
		})
		if err == nil && n > 0 {
			return int64(n), nil
		}
		// copy_file_range fails between different file systems, some implement it badly, and its errors do not show which side
		// failed. Reading and writing shows that. Zero bytes may mean the end of the file or a failure.
		if isAny(err, unix.EXDEV, unix.ENOSYS, unix.EOPNOTSUPP, unix.EINVAL, unix.EPERM) {
			c.noRange.Store(true)
		}
	}
	return c.readAndWrite(at, e, r)
}

func (c *copier) readAndWrite(at pair, e *entry, r run) (int64, error) {
	whole := buffers.Get()
	defer buffers.Put(whole)
	n, err := ignoringEINTRValue(func() (int, error) { return unix.Pread(r.in, whole[:min(r.to-r.from, bufferSize)], r.from) })
	if err == nil && n == 0 {
		err = errChanged // shorter than it was
	}
	if err != nil {
		return 0, at.fault(source, "reading", e, err)
	}
	if err := c.checkOwned(); err != nil { // the read may have waited
		return 0, err
	}
	for buf, off := whole[:n], r.from; len(buf) > 0; {
		w, err := ignoringEINTRValue(func() (int, error) { return unix.Pwrite(r.out, buf, off) })
		if err != nil {
			return 0, at.fault(target, "writing", e, err)
		}
		buf, off = buf[w:], off+int64(w)
	}
	c.keepCopied(e, whole[:n])
	return int64(n), nil
}
