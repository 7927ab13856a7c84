//go:build linux

package write

import (
	"cmp"
	"context"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/fault"
	"drydock.dev/cmd/drydock/mover/fsys"
	"drydock.dev/cmd/drydock/mover/record"
	"drydock.dev/cmd/drydock/mover/target"
	"drydock.dev/cmd/drydock/mover/tree"
)

// Contents copies single entries.
type Contents struct {
	*tree.Job
	Own     *target.Owner
	Trust   *record.Trust
	Flags   *Flags
	Seams   seams
	noRange atomic.Bool // copy_file_range does not work between these two file systems
}

// copyRegular writes a new file and gives it its name when it is complete.
func (w *Contents) copyRegular(ctx context.Context, at tree.Pair, e *tree.Entry, in fsys.Input) error {
	out, tmp, err := w.createTemp(at, e)
	if err != nil {
		return err
	}
	err = w.writeTemp(ctx, at, e, in, out)
	torn := err != nil && w.keepsIncomplete(e, err) && w.Own.CheckOwned() == nil && fsys.Opened(out).Chmod(0o600) == nil
	if cerr := unix.Close(out); err == nil && cerr != nil && cerr != unix.EINTR { // a network file system reports its quota here
		err = at.Fault(fault.Target, "closing", e, cerr)
	}
	switch {
	case err == nil:
		return w.Own.Install(at.Dst, tmp, at.Dir, e.Name)
	case torn && w.Own.Install(at.Dst, tmp, at.Dir, e.Name) == nil:
		w.Own.Invalidate(at.Dst, e)
	default:
		w.Own.Discard(at.Dst, tmp)
	}
	return err
}

// keepsIncomplete reports whether a file that changed while it was copied stays in the target. Without it, the final
// pass would have to copy all of a big file that is constantly written to. With it, that pass writes only the blocks
// that differ.
func (w *Contents) keepsIncomplete(e *tree.Entry, err error) bool {
	return w.Pass == tree.PassFirst && w.IsBig(e) && fault.KindOf(err) == fault.KindChanged
}

// openSource opens a file and checks that it is the scanned one.
func (w *Contents) openSource(at tree.Pair, e *tree.Entry) (fsys.Input, error) {
	in, err := fsys.Openat(at.Src, e.Name, unix.O_RDONLY, 0)
	if err == nil {
		if err = w.Seams.OpeningFile(at.Dir, e.Name); err != nil {
			unix.Close(in)
		}
	}
	if err != nil {
		return fsys.Input{}, at.Fault(fault.Source, "opening", e, err)
	}
	st, err := w.checkUnchanged(at, e, in)
	if err != nil {
		unix.Close(in)
		return fsys.Input{}, err
	}
	w.Flags.noteFileLosses(in, &st, at.Dir, e)
	return fsys.Input{Fd: in, Data: fsys.DataBytes(&st)}, nil
}

// checkUnchanged fails if an open source file has changed since the scan. It returns the file's stat.
func (w *Contents) checkUnchanged(at tree.Pair, e *tree.Entry, in int) (unix.Stat_t, error) {
	st, err := fsys.Fstat(in)
	if err == nil && fsys.MetaOf(&st) != e.Meta {
		err = fault.ErrChanged
	}
	if err != nil {
		err = at.Fault(fault.Source, "reading", e, err)
	}
	return st, err
}

// createTemp creates a file that no other process may open until it is complete.
func (w *Contents) createTemp(at tree.Pair, e *tree.Entry) (out int, tmp string, err error) {
	tmp, err = w.Own.MakeEntry(at.Dir, e, func(name string) (err error) {
		out, err = fsys.Openat(at.Dst, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0)
		return err
	})
	if err != nil {
		return -1, "", at.Fault(fault.Target, fault.OpCreating, e, err)
	}
	return out, tmp, nil
}

// writeTemp fills a new file. The owner comes first: if that is denied, there is nothing to copy. Changing the owner and
// writing clear attributes that SetAttributes sets afterwards.
func (w *Contents) writeTemp(ctx context.Context, at tree.Pair, e *tree.Entry, in fsys.Input, out int) error {
	attrs, err := fsys.Opened(in.Fd).Xattrs(w.notCarried(at.Dir, e.Name))
	if err != nil {
		return at.Fault(fault.Source, "reading extended attributes of", e, err)
	}
	if len(attrs) > 0 {
		e.Copied = nil // the verification has to read them anyway
	}
	if op, err := fsys.SetOwner(fsys.Opened(out), &e.Meta); err != nil {
		return at.Fault(fault.Target, op, e, err)
	}
	if flags := w.Src.FlagsOf(in.Fd); flags != 0 || at.Dir.Flags != 0 { // a new file inherits the flags of its directory
		e.Copied = nil // the verification has to open the source for its flags anyway
		if err := w.Flags.setFlags(out, at.Dir.Join(e.Name), flags); err != nil {
			return err
		}
	}
	if err := cmp.Or(w.copyData(ctx, at, e, in, out), w.Own.CheckOwned()); err != nil {
		return err
	}
	if op, err := fsys.SetAttributes(fsys.Opened(out), &e.Meta, attrs); err != nil {
		return at.Fault(fault.Target, op, e, err)
	}
	if op, err := fsys.CheckAttributes(fsys.Opened(out), &e.Meta); err != nil {
		return at.Fault(fault.Target, op, e, err)
	}
	w.Seams.FileCopied(at.Dir, e.Name)
	_, err = w.checkUnchanged(at, e, in.Fd)
	return err
}

// notCarried returns a function that records attributes of a name that are not copied.
func (w *Contents) notCarried(d *tree.Dir, name string) func(attribute string) {
	return func(attribute string) {
		w.Problems.Omit("the extended attribute "+fault.Quote(attribute), fault.NotCopied, strings.TrimSuffix(d.Join(name), "/"))
	}
}

// copySpecial creates a symbolic link, fifo, socket or device.
func (w *Contents) copySpecial(at tree.Pair, e *tree.Entry) error {
	attrs, err := fsys.Named(at.Src, e.Name).Xattrs(w.notCarried(at.Dir, e.Name))
	if err != nil {
		return at.Fault(fault.Source, "reading extended attributes of", e, err)
	}
	link := ""
	if e.Meta.IsSymlink() {
		if link, err = fsys.Readlinkat(at.Src, e.Name); err != nil {
			return at.Fault(fault.Source, "reading the link", e, err)
		}
	}
	tmp, err := w.Own.MakeEntry(at.Dir, e, func(name string) error {
		if e.Meta.IsSymlink() {
			return unix.Symlinkat(link, at.Dst, name)
		}
		return unix.Mknodat(at.Dst, name, e.Meta.Kind()|0o600, int(e.Meta.Size))
	})
	if err != nil {
		return at.Fault(fault.Target, fault.OpCreating, e, err)
	}
	if err := w.setSpecialAttributes(at, e, fsys.Named(at.Dst, tmp), attrs); err != nil {
		w.Own.Discard(at.Dst, tmp)
		return err
	}
	return w.Own.Install(at.Dst, tmp, at.Dir, e.Name)
}

func (w *Contents) setSpecialAttributes(at tree.Pair, e *tree.Entry, o fsys.Object, attrs []fsys.Xattr) error {
	op, err := fsys.SetOwner(o, &e.Meta)
	if err == nil {
		op, err = fsys.SetAttributes(o, &e.Meta, attrs)
	}
	if err == nil {
		op, err = fsys.CheckAttributes(o, &e.Meta)
	}
	if err != nil {
		return at.Fault(fault.Target, op, e, err)
	}
	st, err := fsys.Lstatat(at.Src, e.Name)
	if err == nil && fsys.MetaOf(&st) != e.Meta {
		err = fault.ErrChanged
	}
	if err != nil {
		return at.Fault(fault.Source, "looking at", e, err)
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

// CopyRangeMin is the minimum size for copy_file_range, because smaller copies are not worth the call.
const CopyRangeMin = 64 << 10

// copyData copies the data between the holes of in to the empty file out.
func (w *Contents) copyData(ctx context.Context, at tree.Pair, e *tree.Entry, in fsys.Input, out int) error {
	size, copied, end := e.Meta.Size, int64(0), int64(0)
	if size == 0 {
		return nil
	}
	for off := int64(0); off < size; {
		from, to, err := in.NextData(off, size)
		if err != nil {
			return at.Fault(fault.Source, "reading", e, err)
		}
		if from < to {
			if err := w.copyRun(ctx, at, e, run{in.Fd, out, from, to}); err != nil {
				return err
			}
			copied, end = copied+to-from, to
		}
		off = to
	}
	if end < size { // the file ends in a hole
		if err := w.Own.CheckOwned(); err != nil {
			return err
		}
		if err := fsys.IgnoringEINTR(func() error { return unix.Ftruncate(out, size) }); err != nil {
			return at.Fault(fault.Target, "extending", e, err)
		}
	}
	w.Meter.Correct(in.Data, copied) // the total contains the estimate of the scan
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

func (w *Contents) copyRun(ctx context.Context, at tree.Pair, e *tree.Entry, r run) error {
	next, written := fsys.ReadAhead{Fd: r.in, From: r.from, To: r.to}, writeBehind{r.out, r.from, r.to}
	for r.from < r.to {
		next.Advance(r.from)
		if err := cmp.Or(context.Cause(ctx), w.Own.CheckOwned()); err != nil {
			return err
		}
		n, err := w.copySome(at, e, r)
		if err != nil {
			return err
		}
		r.from += n
		written.advance(r.from)
		w.Done.Bytes.Add(n)
		w.Meter.Bytes.Add(n)
		w.Seams.FileWritten(at.Dir, e.Name, n)
		w.Limit.Wait(ctx, 2*n)
	}
	return nil
}

// copySome copies the beginning of a run, in the kernel if possible.
func (w *Contents) copySome(at tree.Pair, e *tree.Entry, r run) (int64, error) {
	if r.to-r.from >= CopyRangeMin && !w.noRange.Load() {
		from, to := r.from, r.from
		n, err := fsys.IgnoringEINTRValue(func() (int, error) {
			return unix.CopyFileRange(r.in, &from, r.out, &to, int(w.Limit.Piece(min(r.to-r.from, copyRangeSize))), 0)
		})
		if err == nil && n > 0 {
			return int64(n), nil
		}
		// copy_file_range fails between different file systems, some implement it badly, and its errors do not show which side
		// failed. Reading and writing shows that. Zero bytes may mean the end of the file or a failure.
		if fault.IsAny(err, unix.EXDEV, unix.ENOSYS, unix.EOPNOTSUPP, unix.EINVAL, unix.EPERM) {
			w.noRange.Store(true)
		}
	}
	return w.readAndWrite(at, e, r)
}

func (w *Contents) readAndWrite(at tree.Pair, e *tree.Entry, r run) (int64, error) {
	whole := fsys.Buffers.Get()
	defer fsys.Buffers.Put(whole)
	n, err := fsys.IgnoringEINTRValue(func() (int, error) { return unix.Pread(r.in, whole[:min(r.to-r.from, fsys.BufferSize)], r.from) })
	if err == nil && n == 0 {
		err = fault.ErrChanged // shorter than it was
	}
	if err != nil {
		return 0, at.Fault(fault.Source, "reading", e, err)
	}
	if err := w.Own.CheckOwned(); err != nil { // the read may have waited
		return 0, err
	}
	for buf, off := whole[:n], r.from; len(buf) > 0; {
		w, err := fsys.IgnoringEINTRValue(func() (int, error) { return unix.Pwrite(r.out, buf, off) })
		if err != nil {
			return 0, at.Fault(fault.Target, "writing", e, err)
		}
		buf, off = buf[w:], off+int64(w)
	}
	w.keepCopied(e, whole[:n])
	return int64(n), nil
}
