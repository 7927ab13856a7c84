//go:build linux

// Package target guards the target: whom it belongs to, what is deleted in it, its space, and its root directory.
package target

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/fault"
	"drydock.dev/cmd/drydock/mover/fsys"
	"drydock.dev/cmd/drydock/mover/tree"
	"drydock.dev/shared/moverreport"
)

// Owner guards the target: it marks it as this operation's, and creates and deletes names in it.
type Owner struct {
	*tree.Job
	Token   string // the operation
	OwnOnly bool   // see Options
	Refill  bool   // see Options
	Margin  int    // see Options
	Seams   seams

	Marked bool          // the target has the marker
	Marker *os.File      // nil if the target has no marker, or its file system cannot show a deletion; see CheckOwned
	temps  atomic.Uint64 // numbers the temporary names
}

// seams are the points where tests change what happens.
type seams interface {
	// TargetSize may change the size of the target's file system.
	TargetSize(*unix.Statfs_t)
}

// MarkerName is a file in the target's root, from before the first data until the copy is complete. It says which
// operation fills the target.
const MarkerName = TempPrefix + "target.marker"

const newMarker = MarkerName + ".new" // until it is complete

const MarkerMagic = "drydock-target-1\n"

// CheckOwnership fails if the target holds data that this operation did not write. Otherwise it marks the target.
//
// A complete copy has no marker any more, and its mover may start again before the platform has seen its end. Such a
// copy is recognized because all entries of its root look like the source's.
func (o *Owner) CheckOwnership() error {
	if !o.OwnOnly {
		return nil
	}
	if o.Tree.Top.Find(MarkerName) != nil {
		return fault.New(fault.Source, "copying", MarkerName, fault.ErrOwnName)
	}
	if o.hasOwnMarker() {
		// A new marker ends another mover of this operation, whose node was lost and comes back. A full target has no room for one.
		if err := o.writeMarker(); err != nil && fault.KindOf(err) != fault.KindNoSpace {
			return fault.New(fault.Target, fault.OpCreating, MarkerName, err)
		}
		return o.ownTarget()
	}
	foreign, err := o.foreignNames()
	if err != nil {
		return err
	}
	if len(foreign) > 0 && !o.Refill {
		return targetNotEmpty(foreign)
	}
	if err := o.writeMarker(); err != nil {
		return fault.New(fault.Target, fault.OpCreating, MarkerName, err)
	}
	if _, err := fsys.Lstatat(o.Src.Fd, MarkerName); err == nil { // the same directory by two mounts, with different device numbers
		_ = unix.Unlinkat(o.Dst.Fd, MarkerName, 0)
		return fault.ErrNotSeparate
	}
	return o.ownTarget()
}

// ownTarget keeps the marker open for CheckOwned.
func (o *Owner) ownTarget() error {
	fd, err := fsys.Openat(o.Dst.Fd, MarkerName, unix.O_RDONLY, 0)
	if err != nil {
		return fault.New(fault.Target, "opening", MarkerName, err)
	}
	o.Marker = os.NewFile(uintptr(fd), MarkerName)
	o.Marked = true
	if st, err := fsys.Fstat(fd); err == nil && st.Nlink == 0 { // this file system counts no links, so it cannot show a deletion
		o.ReleaseTarget()
	}
	return nil
}

// hasOwnMarker reports whether the target has the marker of this operation.
func (o *Owner) hasOwnMarker() bool {
	fd, err := fsys.Openat(o.Dst.Fd, MarkerName, unix.O_RDONLY, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	want := o.markerText()
	buf := make([]byte, len(want)+1)
	n, err := fsys.IgnoringEINTRValue(func() (int, error) { return unix.Pread(fd, buf, 0) })
	return err == nil && string(buf[:n]) == want
}

func (o *Owner) markerText() string { return MarkerMagic + o.Token + "\n" }

// foreignNames lists the names in the target's root that belong to another use of the volume. Names of the file system,
// of a marker and of a complete copy do not. While the source is in use, no copy is complete.
func (o *Owner) foreignNames() ([]string, error) {
	names, err := fsys.Readdir(o.Dst.Fd)
	if err != nil {
		return nil, fault.New(fault.Target, "reading the directory", "", err)
	}
	var foreign []string
	for n := range names.All() {
		known, err := o.isExpectedName(n.Name)
		if err != nil {
			return nil, fault.New(fault.Target, "looking at", n.Name, err)
		}
		if !known {
			foreign = append(foreign, n.Name)
		}
	}
	return foreign, nil
}

func (o *Owner) isExpectedName(name string) (bool, error) {
	if name == MarkerName || name == newMarker { // torn, or of an operation that wrote nothing else
		return true, nil
	}
	if name == tree.LostFound {
		if state, err := tree.LostFoundIn(o.Dst.Fd); err != nil || state != tree.LostFoundOrdinary {
			return true, err
		}
	}
	e := o.Tree.Top.Find(name)
	if e == nil || o.Pass == tree.PassFirst {
		return false, nil
	}
	st, err := fsys.Lstatat(o.Dst.Fd, name)
	if err != nil {
		return false, err
	}
	have := fsys.MetaOf(&st)
	return fsys.SameAttributes(&e.Meta, &have), nil
}

// writeMarker makes the marker durable before anything else is written.
func (o *Owner) writeMarker() error {
	_ = unix.Unlinkat(o.Dst.Fd, newMarker, 0) // a torn one; if this fails, the next call reports why
	fd, err := fsys.Openat(o.Dst.Fd, newMarker, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), MarkerName)
	_, err = f.WriteString(o.markerText())
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = fsys.IgnoringEINTR(func() error { return unix.Renameat(o.Dst.Fd, newMarker, o.Dst.Fd, MarkerName) })
	}
	if err != nil {
		_ = unix.Unlinkat(o.Dst.Fd, newMarker, 0)
		return err
	}
	return fsys.IgnoringEINTR(func() error { return unix.Fsync(o.Dst.Fd) })
}

func targetNotEmpty(names []string) error {
	const shownNames = 3
	what := make([]string, 0, shownNames)
	for _, n := range names[:min(len(names), shownNames)] {
		what = append(what, fault.Quote(n))
	}
	return &fault.Error{Code: moverreport.CodeTargetNotEmpty, Reason: moverreport.ReasonTargetNotEmpty, Count: len(names),
		Message: fmt.Sprintf("the target's root holds %s that this operation did not write (%s). Nothing was changed. Use an empty volume",
			fault.CountOf(len(names)), strings.Join(what, ", "))}
}

// CheckOwned fails if the marker was deleted or replaced: another mover fills the target, or has completed the copy, and the workload may
// run on it. That happens on shared storage if the cluster declares this mover's pod ended because its node is lost, and the node comes
// back. Each write must follow a check, although a write that the server has not answered yet can still be late.
func (o *Owner) CheckOwned() error {
	if o.Marker == nil {
		return nil
	}
	st, err := fsys.Fstat(int(o.Marker.Fd()))
	switch {
	case err == nil && st.Nlink > 0:
		return nil
	case err == nil, err == unix.ESTALE: // a network file system has lost a file that another node has deleted
		return &fault.Error{Code: moverreport.CodeTargetNotEmpty, Reason: moverreport.ReasonTargetNotEmpty, Count: 1, Err: err,
			Message: "the target has lost its marker: another mover fills it or has completed this copy, so this one must not write any more"}
	}
	return fault.New(fault.Target, "looking at", o.Marker.Name(), err)
}

// RemoveMarker ends the checks and deletes the marker, because the copy is complete.
func (o *Owner) RemoveMarker() error {
	if err := o.CheckOwned(); err != nil {
		return err
	}
	o.ReleaseTarget()
	if err := fsys.IgnoringEINTR(func() error { return unix.Unlinkat(o.Dst.Fd, MarkerName, 0) }); err != nil && err != unix.ENOENT {
		return fault.New(fault.Target, "deleting", MarkerName, err)
	}
	return nil
}

// ReleaseTarget ends the checks.
func (o *Owner) ReleaseTarget() {
	if o.Marker != nil {
		o.Marker.Close()
		o.Marker = nil
	}
}

// Invalidate makes the next run copy a file again whose contents turned out to be wrong although its attributes are
// right. It changes the file's time. The call may fail; that is why --checksum exists.
func (o *Owner) Invalidate(dirfd int, e *tree.Entry) {
	o.InvalidateObject(fsys.Named(dirfd, e.Name), e)
}

func (o *Owner) InvalidateObject(x fsys.Object, e *tree.Entry) {
	if e.Meta.IsRegular() && o.CheckOwned() == nil {
		stale := fsys.Meta{MtimeSec: e.Meta.MtimeSec - 1}
		_ = x.SetTimes(stale.Times())
	}
}

// IsOwnName reports whether a name in the target belongs to the mover and stays until the copy is complete.
func (o *Owner) IsOwnName(d *tree.Dir, name string) bool {
	return o.Marked && d.Parent == nil && name == MarkerName
}

// TempPrefix begins the names of incomplete files. A killed run leaves some of them behind. The next run deletes them,
// like all names that the source does not have. The source may contain such names, too.
const TempPrefix = ".drydock-copy-"

// MakeTemp calls create with temporary names until a name is free in the target. It skips names that occur in the
// source's directory d.
func (o *Owner) MakeTemp(d *tree.Dir, create func(name string) error) (string, error) {
	for {
		name := TempPrefix + strconv.FormatUint(o.temps.Add(1), 36)
		if d.Find(name) != nil {
			continue
		}
		err := fsys.IgnoringEINTR(func() error { return create(name) })
		if err == unix.EEXIST {
			continue
		}
		return name, err
	}
}

// MakeEntry calls create with a temporary name or, in a fresh directory, with the entry's own name: it cannot replace
// anything there. An entry that a killed run left there is recognized by its time, which is set last.
func (o *Owner) MakeEntry(d *tree.Dir, e *tree.Entry, create func(name string) error) (string, error) {
	if err := o.CheckOwned(); err != nil {
		return "", err
	}
	if d.Fresh {
		if err := fsys.IgnoringEINTR(func() error { return create(e.Name) }); err != unix.EEXIST {
			return e.Name, err
		}
	}
	return o.MakeTemp(d, create)
}

// Install renames a complete file to its final name in one step, unless it already has that name.
func (o *Owner) Install(at int, tmp string, d *tree.Dir, name string) error {
	if tmp == name {
		return nil
	}
	if err := o.CheckOwned(); err != nil {
		o.Discard(at, tmp)
		return err
	}
	err := fsys.IgnoringEINTR(func() error { return unix.Renameat(at, tmp, at, name) })
	if err != nil {
		o.Discard(at, tmp)
		return fault.New(fault.Target, "renaming to", d.Join(name), err)
	}
	return nil
}

// Discard removes a file that will not be completed. If this fails, the next run removes it. In a fresh directory the file has its final
// name, which may be the name of a live file if the target is no longer owned.
func (o *Owner) Discard(at int, tmp string) {
	if strings.HasPrefix(tmp, TempPrefix) || o.CheckOwned() == nil {
		_ = unix.Unlinkat(at, tmp, 0)
	}
}
