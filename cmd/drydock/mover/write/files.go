//go:build linux

// Package write makes the target equal to the scanned source.
package write

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/fault"
	"drydock.dev/cmd/drydock/mover/forecast"
	"drydock.dev/cmd/drydock/mover/fsys"
	"drydock.dev/cmd/drydock/mover/record"
	"drydock.dev/cmd/drydock/mover/target"
	"drydock.dev/cmd/drydock/mover/tree"
	"drydock.dev/cmd/drydock/mover/units"
)

// Files makes the entries of the target that are not directories, and leaves out those that are there already.
type Files struct {
	*tree.Job
	Own      *target.Owner
	Trust    *record.Trust
	Flags    *Flags
	Content  *Contents
	Links    *Links
	Keeper   *units.Keeper
	Kept     map[fsys.Inode]*units.KeptHashes // of an earlier pass, by the source's inode
	Effort   *forecast.Effort
	Checksum bool // compare contents, not only size and mtime, before a file counts as copied
	Seams    seams
}

// seams are the points where tests act.
type seams interface {
	OpeningFile(d *tree.Dir, name string) error          // fails the opening of a source file
	FileCopied(d *tree.Dir, name string)                 // after a file was read, before it is checked for changes
	FileWritten(d *tree.Dir, name string, written int64) // after a piece of a file was written
	FileConfirmed(d *tree.Dir, name string)              // before a file is recorded
}

// Fill copies everything except directories and further names of hard links.
func (w *Files) Fill(ctx context.Context) error {
	w.reserveCopiedSums()
	return w.Tree.EachChunk(ctx, w.Workers, w.fillChunk)
}

func (w *Files) fillChunk(ctx context.Context, d *tree.Dir, entries []tree.Entry) error {
	defer w.Effort.Task(time.Now())
	entries = w.skipKnown(d, entries)
	if len(entries) == 0 {
		return nil
	}
	at, err := w.OpenPair(d)
	if err != nil {
		w.NoteChange(d, err)
		w.failLeaders(d, entries)
		return w.Problems.Collect(err)
	}
	defer at.Close()
	if err := w.Own.CheckOwned(); err != nil {
		return w.Problems.Collect(err)
	}
	for i := range entries {
		e := &entries[i]
		g := w.Tree.GroupOf(e)
		if g != nil && !g.IsLeader(d, e) {
			continue
		}
		err := w.copyEntry(ctx, at, e, g)
		if err != nil && g != nil {
			g.Failed.Store(true)
		}
		w.NoteChange(d, err)
		if err := w.Problems.Collect(err); err != nil {
			return err
		}
		w.Meter.Files.Add(1)
	}
	return nil
}

// skipKnown removes directories and the files that an earlier pass verified and that are unchanged on both sides. It looks at the target
// once, before anything is written there, and marks these files for the verification. A first pass records them again. It overwrites the
// slice.
func (w *Files) skipKnown(d *tree.Dir, entries []tree.Entry) []tree.Entry {
	dirfd := -1
	if w.Trust.Earlier != nil && !d.Fresh {
		if fd, err := w.Dst.Open(d.Path()); err == nil { // an error comes again when the first entry is copied
			dirfd = fd
			defer unix.Close(fd)
		}
	}
	left, skipped, bytes, next := entries[:0], int64(0), int64(0), 0
	for i := range entries {
		e := &entries[i]
		if e.Sub != nil {
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
		e.MarkKnown()
		skipped++
		bytes += data
	}
	if skipped > 0 { // workers would wait for each other if each file did that
		w.Done.Skipped.Add(skipped)
		w.Trust.Files.Add(skipped)
		w.Trust.Bytes.Add(bytes)
		w.Meter.Files.Add(skipped)
		w.Meter.Bytes.Add(bytes)
	}
	return left
}

// isUnchanged reports whether an earlier pass verified a file without extended attributes and other names, and both inodes look as they
// did then. Both sides had no such attributes then, and adding one changes ctime. It returns the data bytes of the target's file. next is
// the place in the record where the file probably is.
func (w *Files) isUnchanged(d *tree.Dir, dirfd int, e *tree.Entry, next *int) (data int64, known bool) {
	t := w.Trust
	if !e.Meta.IsRegular() || e.Meta.Nlink != 1 || t.IsInSubvolume(&e.Meta) || t.Pass == tree.PassFirst && !t.IsRecordable(d, e, nil) {
		return 0, false
	}
	at := t.Earlier.Search(e.Meta.Ino, *next)
	if at < 0 {
		return 0, false
	}
	*next = at + 1
	have, err := fsys.StatIn(dirfd, e.Terminated)
	if err != nil || have.Meta.Nlink != 1 || !fsys.SameAttributes(&e.Meta, &have.Meta) {
		return 0, false
	}
	if plain, ok := t.Earlier.Files[at].Holds(&e.Meta, &have.Meta); !ok || !plain {
		return 0, false
	}
	if t.Pass == tree.PassFirst {
		w.Seams.FileConfirmed(d, e.Name)
		t.Current.Add(&e.Meta, &have.Meta, true, have.Data)
	}
	return have.Data, true
}

// failLeaders marks the groups of entries that cannot be reached: there is nothing to link their other names to.
func (w *Files) failLeaders(d *tree.Dir, entries []tree.Entry) {
	for i := range entries {
		if g := w.Tree.GroupOf(&entries[i]); g != nil && g.IsLeader(d, &entries[i]) {
			g.Failed.Store(true)
		}
	}
}

// copyEntry makes one entry of the target equal to the source's.
func (w *Files) copyEntry(ctx context.Context, at tree.Pair, e *tree.Entry, g *tree.Group) error {
	upToDate, err := w.isUpToDate(ctx, at, e, g)
	if err != nil {
		return err
	}
	if upToDate {
		w.Done.Skipped.Add(1)
		return nil
	}
	written := true
	if e.Meta.IsRegular() {
		began := time.Now()
		written, err = w.updateRegular(ctx, at, e, g)
		w.Effort.Contents(e.Meta.Size, w.Tree.DataSize(e), began)
	} else {
		err = w.Content.copySpecial(at, e)
	}
	switch {
	case err != nil:
	case written:
		w.Done.Files.Add(1)
	default:
		w.Done.Skipped.Add(1)
	}
	return err
}

// updateRegular patches a big file that exists in the target and can be read, and copies any other file completely. It returns whether it
// wrote contents.
func (w *Files) updateRegular(ctx context.Context, at tree.Pair, e *tree.Entry, g *tree.Group) (bool, error) {
	in, err := w.Content.openSource(at, e)
	if err != nil {
		return false, err
	}
	defer unix.Close(in.Fd)
	if out := w.openPatch(at, e, g, in.Fd); out >= 0 {
		if written, err := w.patchRegular(ctx, at, e, in, out); !errors.Is(err, errUnreadable) {
			return written, err
		}
	}
	return true, w.Content.copyRegular(ctx, at, e, in)
}

// isUpToDate reports whether the target has the entry already: by attributes and, if the options demand it, by contents.
// The names of an entry must share an inode exactly as in the source.
func (w *Files) isUpToDate(ctx context.Context, at tree.Pair, e *tree.Entry, g *tree.Group) (bool, error) {
	if at.Dir.Fresh {
		return false, nil
	}
	st, err := fsys.Lstatat(at.Dst, e.Name)
	if err == unix.ENOENT {
		return false, nil
	}
	if err != nil {
		return false, at.Fault(fault.Target, "looking at", e, err)
	}
	have := fsys.MetaOf(&st)
	if !fsys.SameAttributes(&e.Meta, &have) || !w.Links.isOwnInode(&have, g) {
		return false, nil
	}
	now, err := fsys.Lstatat(at.Src, e.Name)
	if err != nil {
		return false, at.Fault(fault.Source, "looking at", e, err)
	}
	if fsys.MetaOf(&now) != e.Meta {
		return false, at.Fault(fault.Source, "looking at", e, fault.ErrChanged)
	}
	same, err := w.sameDetails(ctx, at, e, &have)
	if same {
		w.Meter.Bytes.Add(fsys.DataBytes(&now))
	}
	return same, err
}

// sameDetails compares what stat does not show.
func (w *Files) sameDetails(ctx context.Context, at tree.Pair, e *tree.Entry, have *fsys.Meta) (bool, error) {
	want, err := fsys.Named(at.Src, e.Name).Xattrs(nil)
	if err != nil {
		return false, at.Fault(fault.Source, "reading extended attributes of", e, err)
	}
	attrs, err := fsys.Named(at.Dst, e.Name).Xattrs(nil)
	if err != nil {
		return false, at.Fault(fault.Target, "reading extended attributes of", e, err)
	}
	switch {
	case !fsys.SameXattrs(want, attrs):
		return false, nil
	case e.Meta.IsSymlink():
		return w.sameLink(at, e)
	case e.Meta.IsRegular() && w.mustCompare(e, have):
		// A patch compares the contents of a big file, and writes nothing if they are equal.
		if same, err := w.Flags.sameFlags(ctx, at, e); err != nil || !same || w.IsBig(e) {
			return false, err
		}
		began := time.Now()
		defer func() { w.Effort.Contents(e.Meta.Size, e.Meta.Size, began) }()
		return w.sameContents(ctx, at, e)
	case e.Meta.IsRegular() && w.Pass == tree.PassWhole: // in the other passes, the change time shows a change of the flags
		return w.Flags.sameFlags(ctx, at, e)
	}
	return true, nil
}

// mustCompare reports whether a file with equal attributes has to be read to prove that it is equal.
func (w *Files) mustCompare(e *tree.Entry, have *fsys.Meta) bool {
	if _, ok := w.Trust.Verified(e, have); ok {
		return false
	}
	return w.Checksum || !w.Trust.AttributesSuffice(e, have)
}

func (w *Files) sameLink(at tree.Pair, e *tree.Entry) (bool, error) {
	want, err := fsys.Readlinkat(at.Src, e.Name)
	if err != nil {
		return false, at.Fault(fault.Source, "reading the link", e, err)
	}
	have, err := fsys.Readlinkat(at.Dst, e.Name)
	if err != nil {
		return false, at.Fault(fault.Target, "reading the link", e, err)
	}
	return want == have, nil
}

// sameContents reads both sides. A file in the target that cannot be read counts as different, so it is replaced.
func (w *Files) sameContents(ctx context.Context, at tree.Pair, e *tree.Entry) (bool, error) {
	in, err := fsys.Openat(at.Src, e.Name, unix.O_RDONLY, 0)
	if err != nil {
		return false, at.Fault(fault.Source, "opening", e, err)
	}
	defer unix.Close(in)
	out, err := fsys.Openat(at.Dst, e.Name, unix.O_RDONLY, 0)
	if err != nil {
		return false, context.Cause(ctx)
	}
	defer unix.Close(out)
	same, err := (&units.Comparison{Fds: [2]int{in, out}, Size: e.Meta.Size, Limit: w.Limit}).Run(ctx)
	if f := (*units.SideError)(nil); errors.As(err, &f) {
		if f.Side == fault.Target {
			return false, context.Cause(ctx)
		}
		err = at.Fault(fault.Source, "reading", e, f.Err)
	}
	return same, err
}

// maxCopiedSums is the number of hashes of copied files that a pass keeps: 32 MiB of memory.
const maxCopiedSums = 1 << 20

// reserveCopiedSums makes room for the hashes of the files that a first pass without an earlier record copies. keepCopied fills in
// the hash of a file without holes that has one name and fits in one buffer. The verification then reads only the target. So
// such files of the source, which is in use, are read once.
//
// This proves as much as a second read of the source: only settled files are recorded, and a later write changes their inode, see
// record.Trust.Begin. Where change times are not trusted, nothing is recorded, and the hashes are all that a first pass compares.
func (w *Files) reserveCopiedSums() {
	if w.Pass != tree.PassFirst || w.Trust.Earlier != nil { // with an earlier record, few files are copied
		return
	}
	left := maxCopiedSums
	for _, d := range w.Tree.Dirs {
		if d.Excluded {
			continue
		}
		for i := range d.Blocks {
			if left -= d.Blocks[i].Count; left < 0 {
				return
			}
			d.Blocks[i].Copied = make([]units.Sum, d.Blocks[i].Count)
		}
	}
}

// keepCopied keeps the hash of contents that were read to copy them, if they are the whole file.
func (w *Contents) keepCopied(e *tree.Entry, contents []byte) {
	if e.Copied != nil && e.Meta.Nlink == 1 && int64(len(contents)) == e.Meta.Size && (w.Trust.Current == nil || w.Trust.IsSettled(e)) {
		*e.Copied = sha256.Sum256(contents)
	}
}
