//go:build linux

package mover

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// fileWriter makes the entries of the target that are not directories, and leaves out those that are there already.
type fileWriter struct {
	*job
	own      *owner
	trust    *trust
	flags    *flagPolicy
	content  *contentWriter
	links    *linker
	keeper   *keeper
	kept     map[inode]*keptHashes // of an earlier pass, by the source's inode
	effort   *effort
	checksum bool // compare contents, not only size and mtime, before a file counts as copied
	seams    writeSeams
}

// writeSeams are the points where tests act.
type writeSeams interface {
	OpeningFile(d *dir, name string) error          // fails the opening of a source file
	FileCopied(d *dir, name string)                 // after a file was read, before it is checked for changes
	FileWritten(d *dir, name string, written int64) // after a piece of a file was written
	FileConfirmed(d *dir, name string)              // before a file is recorded
}

// fill copies everything except directories and further names of hard links.
func (w *fileWriter) fill(ctx context.Context) error {
	w.reserveCopiedSums()
	return w.tree.eachChunk(ctx, w.workers, w.fillChunk)
}

func (w *fileWriter) fillChunk(ctx context.Context, d *dir, entries []entry) error {
	defer w.effort.task(time.Now())
	entries = w.skipKnown(d, entries)
	if len(entries) == 0 {
		return nil
	}
	at, err := w.openPair(d)
	if err != nil {
		w.noteChange(d, err)
		w.failLeaders(d, entries)
		return w.problems.collect(err)
	}
	defer at.close()
	if err := w.own.checkOwned(); err != nil {
		return w.problems.collect(err)
	}
	for i := range entries {
		e := &entries[i]
		g := w.tree.groupOf(e)
		if g != nil && !g.isLeader(d, e) {
			continue
		}
		err := w.copyEntry(ctx, at, e, g)
		if err != nil && g != nil {
			g.failed.Store(true)
		}
		w.noteChange(d, err)
		if err := w.problems.collect(err); err != nil {
			return err
		}
		w.meter.files.Add(1)
	}
	return nil
}

// skipKnown removes directories and the files that an earlier pass verified and that are unchanged on both sides. It looks at the target
// once, before anything is written there, and marks these files for the verification. A first pass records them again. It overwrites the
// slice.
func (w *fileWriter) skipKnown(d *dir, entries []entry) []entry {
	dirfd := -1
	if w.trust.earlier != nil && !d.fresh {
		if fd, err := w.dst.open(d); err == nil { // an error comes again when the first entry is copied
			dirfd = fd
			defer unix.Close(fd)
		}
	}
	left, skipped, bytes, next := entries[:0], int64(0), int64(0), 0
	for i := range entries {
		e := &entries[i]
		if e.sub != nil {
			continue
		}
		data, known := int64(0), false
		if dirfd >= 0 {
			data, known = w.isUnchanged(d, dirfd, e, &next)
		}
		if !known {
			left = append(left, *e)
			continue
		}
		e.markKnown()
		skipped++
		bytes += data
	}
	if skipped > 0 { // workers would wait for each other if each file did that
		w.done.skipped.Add(skipped)
		w.trust.files.Add(skipped)
		w.trust.bytes.Add(bytes)
		w.meter.files.Add(skipped)
		w.meter.bytes.Add(bytes)
	}
	return left
}

// isUnchanged reports whether an earlier pass verified a file without extended attributes and other names, and both inodes look as they
// did then. Both sides had no such attributes then, and adding one changes ctime. It returns the data bytes of the target's file. next is
// the place in the record where the file probably is.
func (w *fileWriter) isUnchanged(d *dir, dirfd int, e *entry, next *int) (data int64, known bool) {
	t := w.trust
	if !e.meta.isRegular() || e.meta.nlink != 1 || t.isInSubvolume(&e.meta) || t.pass == PassFirst && !t.isRecordable(d, e, nil) {
		return 0, false
	}
	at := t.earlier.search(e.meta.ino, *next)
	if at < 0 {
		return 0, false
	}
	*next = at + 1
	have, err := statIn(dirfd, e)
	if err != nil || have.meta.nlink != 1 || !sameAttributes(&e.meta, &have.meta) {
		return 0, false
	}
	if plain, ok := t.earlier.files[at].holds(&e.meta, &have.meta); !ok || !plain {
		return 0, false
	}
	if t.pass == PassFirst {
		w.seams.FileConfirmed(d, e.name)
		t.current.add(&e.meta, &have.meta, true, have.data)
	}
	return have.data, true
}

// failLeaders marks the groups of entries that cannot be reached: there is nothing to link their other names to.
func (w *fileWriter) failLeaders(d *dir, entries []entry) {
	for i := range entries {
		if g := w.tree.groupOf(&entries[i]); g != nil && g.isLeader(d, &entries[i]) {
			g.failed.Store(true)
		}
	}
}

// copyEntry makes one entry of the target equal to the source's.
func (w *fileWriter) copyEntry(ctx context.Context, at pair, e *entry, g *group) error {
	upToDate, err := w.isUpToDate(ctx, at, e, g)
	if err != nil {
		return err
	}
	if upToDate {
		w.done.skipped.Add(1)
		return nil
	}
	written := true
	if e.meta.isRegular() {
		began := time.Now()
		written, err = w.updateRegular(ctx, at, e, g)
		w.effort.contents(e.meta.size, w.tree.dataSize(e), began)
	} else {
		err = w.content.copySpecial(at, e)
	}
	switch {
	case err != nil:
	case written:
		w.done.files.Add(1)
	default:
		w.done.skipped.Add(1)
	}
	return err
}

// updateRegular patches a big file that exists in the target, and copies any other file completely. It returns whether
// it wrote contents.
func (w *fileWriter) updateRegular(ctx context.Context, at pair, e *entry, g *group) (bool, error) {
	in, err := w.content.openSource(at, e)
	if err != nil {
		return false, err
	}
	defer unix.Close(in.fd)
	if out := w.openPatch(at, e, g, in.fd); out >= 0 {
		return w.patchRegular(ctx, at, e, in, out)
	}
	return true, w.content.copyRegular(ctx, at, e, in)
}

// isUpToDate reports whether the target has the entry already: by attributes and, if the options demand it, by contents.
// The names of an entry must share an inode exactly as in the source.
func (w *fileWriter) isUpToDate(ctx context.Context, at pair, e *entry, g *group) (bool, error) {
	if at.dir.fresh {
		return false, nil
	}
	st, err := lstatat(at.dst, e.name)
	if err == unix.ENOENT {
		return false, nil
	}
	if err != nil {
		return false, at.fault(target, "looking at", e, err)
	}
	have := metaOf(&st)
	if !sameAttributes(&e.meta, &have) || !w.links.isOwnInode(&have, g) {
		return false, nil
	}
	now, err := lstatat(at.src, e.name)
	if err != nil {
		return false, at.fault(source, "looking at", e, err)
	}
	if metaOf(&now) != e.meta {
		return false, at.fault(source, "looking at", e, errChanged)
	}
	same, err := w.sameDetails(ctx, at, e, &have)
	if same {
		w.meter.bytes.Add(dataBytes(&now))
	}
	return same, err
}

// sameDetails compares what stat does not show.
func (w *fileWriter) sameDetails(ctx context.Context, at pair, e *entry, have *meta) (bool, error) {
	want, err := named(at.src, e.name).xattrs(nil)
	if err != nil {
		return false, at.fault(source, "reading extended attributes of", e, err)
	}
	attrs, err := named(at.dst, e.name).xattrs(nil)
	if err != nil {
		return false, at.fault(target, "reading extended attributes of", e, err)
	}
	switch {
	case !sameXattrs(want, attrs):
		return false, nil
	case e.meta.isSymlink():
		return w.sameLink(at, e)
	case e.meta.isRegular() && w.mustCompare(e, have):
		// A patch compares the contents of a big file, and writes nothing if they are equal.
		if same, err := w.flags.sameFlags(ctx, at, e); err != nil || !same || w.isBig(e) {
			return false, err
		}
		began := time.Now()
		defer func() { w.effort.contents(e.meta.size, e.meta.size, began) }()
		return w.sameContents(ctx, at, e)
	case e.meta.isRegular() && w.pass == PassWhole: // in the other passes, the change time shows a change of the flags
		return w.flags.sameFlags(ctx, at, e)
	}
	return true, nil
}

// mustCompare reports whether a file with equal attributes has to be read to prove that it is equal.
func (w *fileWriter) mustCompare(e *entry, have *meta) bool {
	if _, ok := w.trust.verified(e, have); ok {
		return false
	}
	return w.checksum || !w.trust.attributesSuffice(e, have)
}

func (w *fileWriter) sameLink(at pair, e *entry) (bool, error) {
	want, err := readlinkat(at.src, e.name)
	if err != nil {
		return false, at.fault(source, "reading the link", e, err)
	}
	have, err := readlinkat(at.dst, e.name)
	if err != nil {
		return false, at.fault(target, "reading the link", e, err)
	}
	return want == have, nil
}

// sameContents reads both sides. A file in the target that cannot be read counts as different, so it is replaced.
func (w *fileWriter) sameContents(ctx context.Context, at pair, e *entry) (bool, error) {
	in, err := openat(at.src, e.name, unix.O_RDONLY, 0)
	if err != nil {
		return false, at.fault(source, "opening", e, err)
	}
	defer unix.Close(in)
	out, err := openat(at.dst, e.name, unix.O_RDONLY, 0)
	if err != nil {
		return false, context.Cause(ctx)
	}
	defer unix.Close(out)
	same, err := (&comparison{fds: [2]int{in, out}, size: e.meta.size, limit: w.limit}).run(ctx)
	if f := (*sideError)(nil); errors.As(err, &f) {
		if f.side == target {
			return false, context.Cause(ctx)
		}
		err = at.fault(source, "reading", e, f.err)
	}
	return same, err
}
