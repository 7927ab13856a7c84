//go:build linux

package mover

import (
	"cmp"
	"context"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// contentWriter copies single entries.
type contentWriter struct {
	*job
	own     *owner
	trust   *trust
	flags   *flagPolicy
	seams   writeSeams
	noRange atomic.Bool // copy_file_range does not work between these two file systems
}

// copyRegular writes a new file and gives it its name when it is complete.
func (w *contentWriter) copyRegular(ctx context.Context, at pair, e *entry, in input) error {
	out, tmp, err := w.createTemp(at, e)
	if err != nil {
		return err
	}
	err = w.writeTemp(ctx, at, e, in, out)
	torn := err != nil && w.keepsIncomplete(e, err) && w.own.checkOwned() == nil && opened(out).chmod(0o600) == nil
	if cerr := unix.Close(out); err == nil && cerr != nil && cerr != unix.EINTR { // a network file system reports its quota here
		err = at.fault(target, "closing", e, cerr)
	}
	switch {
	case err == nil:
		return w.own.install(at.dst, tmp, at.dir, e.name)
	case torn && w.own.install(at.dst, tmp, at.dir, e.name) == nil:
		w.own.invalidate(at.dst, e)
	default:
		w.own.discard(at.dst, tmp)
	}
	return err
}

// keepsIncomplete reports whether a file that changed while it was copied stays in the target. Without it, the final
// pass would have to copy all of a big file that is constantly written to. With it, that pass writes only the blocks
// that differ.
func (w *contentWriter) keepsIncomplete(e *entry, err error) bool {
	return w.pass == PassFirst && w.isBig(e) && kindOf(err) == kindChanged
}

// openSource opens a file and checks that it is the scanned one.
func (w *contentWriter) openSource(at pair, e *entry) (input, error) {
	in, err := openat(at.src, e.name, unix.O_RDONLY, 0)
	if err == nil {
		if err = w.seams.OpeningFile(at.dir, e.name); err != nil {
			unix.Close(in)
		}
	}
	if err != nil {
		return input{}, at.fault(source, "opening", e, err)
	}
	st, err := w.checkUnchanged(at, e, in)
	if err != nil {
		unix.Close(in)
		return input{}, err
	}
	w.flags.noteFileLosses(in, &st, at.dir, e)
	return input{in, dataBytes(&st)}, nil
}

// checkUnchanged fails if an open source file has changed since the scan. It returns the file's stat.
func (w *contentWriter) checkUnchanged(at pair, e *entry, in int) (unix.Stat_t, error) {
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
func (w *contentWriter) createTemp(at pair, e *entry) (out int, tmp string, err error) {
	tmp, err = w.own.makeEntry(at.dir, e, func(name string) (err error) {
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
func (w *contentWriter) writeTemp(ctx context.Context, at pair, e *entry, in input, out int) error {
	attrs, err := opened(in.fd).xattrs(w.notCarried(at.dir, e.name))
	if err != nil {
		return at.fault(source, "reading extended attributes of", e, err)
	}
	if len(attrs) > 0 {
		e.copied = nil // the verification has to read them anyway
	}
	if op, err := setOwner(opened(out), &e.meta); err != nil {
		return at.fault(target, op, e, err)
	}
	if flags := w.src.flagsOf(in.fd); flags != 0 || at.dir.flags != 0 { // a new file inherits the flags of its directory
		e.copied = nil // the verification has to open the source for its flags anyway
		if err := w.flags.setFlags(out, at.dir.join(e.name), flags); err != nil {
			return err
		}
	}
	if err := cmp.Or(w.copyData(ctx, at, e, in, out), w.own.checkOwned()); err != nil {
		return err
	}
	if op, err := setAttributes(opened(out), &e.meta, attrs); err != nil {
		return at.fault(target, op, e, err)
	}
	if op, err := checkAttributes(opened(out), &e.meta); err != nil {
		return at.fault(target, op, e, err)
	}
	w.seams.FileCopied(at.dir, e.name)
	_, err = w.checkUnchanged(at, e, in.fd)
	return err
}

// notCarried returns a function that records attributes of a name that are not copied.
func (w *contentWriter) notCarried(d *dir, name string) func(attribute string) {
	return func(attribute string) {
		w.problems.omit("the extended attribute "+quote(attribute), notCopied, strings.TrimSuffix(d.join(name), "/"))
	}
}

// copySpecial creates a symbolic link, fifo, socket or device.
func (w *contentWriter) copySpecial(at pair, e *entry) error {
	attrs, err := named(at.src, e.name).xattrs(w.notCarried(at.dir, e.name))
	if err != nil {
		return at.fault(source, "reading extended attributes of", e, err)
	}
	link := ""
	if e.meta.isSymlink() {
		if link, err = readlinkat(at.src, e.name); err != nil {
			return at.fault(source, "reading the link", e, err)
		}
	}
	tmp, err := w.own.makeEntry(at.dir, e, func(name string) error {
		if e.meta.isSymlink() {
			return unix.Symlinkat(link, at.dst, name)
		}
		return unix.Mknodat(at.dst, name, e.meta.kind()|0o600, int(e.meta.size))
	})
	if err != nil {
		return at.fault(target, opCreating, e, err)
	}
	if err := w.setSpecialAttributes(at, e, named(at.dst, tmp), attrs); err != nil {
		w.own.discard(at.dst, tmp)
		return err
	}
	return w.own.install(at.dst, tmp, at.dir, e.name)
}

func (w *contentWriter) setSpecialAttributes(at pair, e *entry, o object, attrs []xattr) error {
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
func (w *contentWriter) copyData(ctx context.Context, at pair, e *entry, in input, out int) error {
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
			if err := w.copyRun(ctx, at, e, run{in.fd, out, from, to}); err != nil {
				return err
			}
			copied, end = copied+to-from, to
		}
		off = to
	}
	if end < size { // the file ends in a hole
		if err := w.own.checkOwned(); err != nil {
			return err
		}
		if err := ignoringEINTR(func() error { return unix.Ftruncate(out, size) }); err != nil {
			return at.fault(target, "extending", e, err)
		}
	}
	w.meter.correct(in.data, copied) // the total contains the estimate of the scan
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

func (w *contentWriter) copyRun(ctx context.Context, at pair, e *entry, r run) error {
	next, written := readAhead{r.in, r.from, r.to}, writeBehind{r.out, r.from, r.to}
	for r.from < r.to {
		next.advance(r.from)
		if err := cmp.Or(context.Cause(ctx), w.own.checkOwned()); err != nil {
			return err
		}
		n, err := w.copySome(at, e, r)
		if err != nil {
			return err
		}
		r.from += n
		written.advance(r.from)
		w.done.bytes.Add(n)
		w.meter.bytes.Add(n)
		w.seams.FileWritten(at.dir, e.name, n)
		w.limit.wait(ctx, 2*n)
	}
	return nil
}

// copySome copies the beginning of a run, in the kernel if possible.
func (w *contentWriter) copySome(at pair, e *entry, r run) (int64, error) {
	if r.to-r.from >= copyRangeMin && !w.noRange.Load() {
		from, to := r.from, r.from
		n, err := ignoringEINTRValue(func() (int, error) {
			return unix.CopyFileRange(r.in, &from, r.out, &to, int(w.limit.piece(min(r.to-r.from, copyRangeSize))), 0)
		})
		if err == nil && n > 0 {
			return int64(n), nil
		}
		// copy_file_range fails between different file systems, some implement it badly, and its errors do not show which side
		// failed. Reading and writing shows that. Zero bytes may mean the end of the file or a failure.
		if isAny(err, unix.EXDEV, unix.ENOSYS, unix.EOPNOTSUPP, unix.EINVAL, unix.EPERM) {
			w.noRange.Store(true)
		}
	}
	return w.readAndWrite(at, e, r)
}

func (w *contentWriter) readAndWrite(at pair, e *entry, r run) (int64, error) {
	whole := buffers.Get()
	defer buffers.Put(whole)
	n, err := ignoringEINTRValue(func() (int, error) { return unix.Pread(r.in, whole[:min(r.to-r.from, bufferSize)], r.from) })
	if err == nil && n == 0 {
		err = errChanged // shorter than it was
	}
	if err != nil {
		return 0, at.fault(source, "reading", e, err)
	}
	if err := w.own.checkOwned(); err != nil { // the read may have waited
		return 0, err
	}
	for buf, off := whole[:n], r.from; len(buf) > 0; {
		w, err := ignoringEINTRValue(func() (int, error) { return unix.Pwrite(r.out, buf, off) })
		if err != nil {
			return 0, at.fault(target, "writing", e, err)
		}
		buf, off = buf[w:], off+int64(w)
	}
	w.keepCopied(e, whole[:n])
	return int64(n), nil
}
