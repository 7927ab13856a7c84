//go:build linux

package mover

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"

	"drydock.dev/shared/moverreport"
	"golang.org/x/sys/unix"
)

// owner guards the target: it marks it as this operation's, and creates and deletes names in it.
type owner struct {
	*job
	token   string // the operation
	ownOnly bool   // see Options
	refill  bool   // see Options
	margin  int    // see Options
	seams   targetSeams

	marked bool          // the target has the marker
	marker *os.File      // nil if the target has no marker, or its file system cannot show a deletion; see checkOwned
	temps  atomic.Uint64 // numbers the temporary names
}

// targetSeams are the points where tests change what happens.
type targetSeams interface {
	// TargetSize may change the size of the target's file system.
	TargetSize(*unix.Statfs_t)
}

// markerName is a file in the target's root, from before the first data until the copy is complete. It says which
// operation fills the target.
const markerName = tempPrefix + "target.marker"

const markerMagic = "drydock-target-1\n"

// checkOwnership fails if the target holds data that this operation did not write. Otherwise it marks the target.
//
// A complete copy has no marker any more, and its mover may start again before the platform has seen its end. Such a
// copy is recognized because all entries of its root look like the source's.
func (o *owner) checkOwnership() error {
	if !o.ownOnly {
		return nil
	}
	if o.tree.top.find(markerName) != nil {
		return newFault(source, "copying", markerName, errOwnName)
	}
	if o.hasOwnMarker() {
		return o.ownTarget()
	}
	foreign, err := o.foreignNames()
	if err != nil {
		return err
	}
	if len(foreign) > 0 && !o.refill {
		return targetNotEmpty(foreign)
	}
	if err := o.writeMarker(); err != nil {
		return newFault(target, opCreating, markerName, err)
	}
	if _, err := lstatat(o.src.fd, markerName); err == nil { // the same directory by two mounts, with different device numbers
		_ = unix.Unlinkat(o.dst.fd, markerName, 0)
		return errNotSeparate
	}
	return o.ownTarget()
}

// ownTarget keeps the marker open for checkOwned.
func (o *owner) ownTarget() error {
	fd, err := openat(o.dst.fd, markerName, unix.O_RDONLY, 0)
	if err != nil {
		return newFault(target, "opening", markerName, err)
	}
	o.marker = os.NewFile(uintptr(fd), markerName)
	o.marked = true
	if st, err := fstat(fd); err == nil && st.Nlink == 0 { // this file system counts no links, so it cannot show a deletion
		o.releaseTarget()
	}
	return nil
}

// hasOwnMarker reports whether the target has the marker of this operation.
func (o *owner) hasOwnMarker() bool {
	fd, err := openat(o.dst.fd, markerName, unix.O_RDONLY, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	want := o.markerText()
	buf := make([]byte, len(want)+1)
	n, err := ignoringEINTRValue(func() (int, error) { return unix.Pread(fd, buf, 0) })
	return err == nil && string(buf[:n]) == want
}

func (o *owner) markerText() string { return markerMagic + o.token + "\n" }

// foreignNames lists the names in the target's root that belong to another use of the volume. Names of the file system,
// of a marker and of a complete copy do not. While the source is in use, no copy is complete.
func (o *owner) foreignNames() ([]string, error) {
	names, err := readdir(o.dst.fd)
	if err != nil {
		return nil, newFault(target, "reading the directory", "", err)
	}
	var foreign []string
	for n := range names.all() {
		known, err := o.isExpectedName(n.name)
		if err != nil {
			return nil, newFault(target, "looking at", n.name, err)
		}
		if !known {
			foreign = append(foreign, n.name)
		}
	}
	return foreign, nil
}

func (o *owner) isExpectedName(name string) (bool, error) {
	if name == markerName { // torn, or of an operation that wrote nothing else
		return true, nil
	}
	if name == lostFound {
		if state, err := lostFoundIn(o.dst.fd); err != nil || state != lostFoundOrdinary {
			return true, err
		}
	}
	e := o.tree.top.find(name)
	if e == nil || o.pass == PassFirst {
		return false, nil
	}
	st, err := lstatat(o.dst.fd, name)
	if err != nil {
		return false, err
	}
	have := metaOf(&st)
	return sameAttributes(&e.meta, &have), nil
}

// writeMarker makes the marker durable before anything else is written.
func (o *owner) writeMarker() error {
	_ = unix.Unlinkat(o.dst.fd, markerName, 0) // a torn marker; if this fails, the next call reports why
	fd, err := openat(o.dst.fd, markerName, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), markerName)
	_, err = f.WriteString(o.markerText())
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return ignoringEINTR(func() error { return unix.Fsync(o.dst.fd) })
}

func targetNotEmpty(names []string) error {
	const shownNames = 3
	what := make([]string, 0, shownNames)
	for _, n := range names[:min(len(names), shownNames)] {
		what = append(what, quote(n))
	}
	return &Error{Code: moverreport.CodeTargetNotEmpty, Reason: moverreport.ReasonTargetNotEmpty, Count: len(names),
		Message: fmt.Sprintf("the target's root holds %s that this operation did not write (%s). Nothing was changed. Use an empty volume",
			countOf(len(names)), strings.Join(what, ", "))}
}

// checkOwned fails if the marker was deleted: another mover has completed the copy, and the workload may run on it. That happens on shared
// storage if the cluster declares this mover's pod ended because its node is lost, and the node comes back. Each write must follow a check,
// although a write that the server has not answered yet can still be late.
func (o *owner) checkOwned() error {
	if o.marker == nil {
		return nil
	}
	st, err := fstat(int(o.marker.Fd()))
	switch {
	case err == nil && st.Nlink > 0:
		return nil
	case err == nil, err == unix.ESTALE: // a network file system has lost a file that another node has deleted
		return &Error{Code: moverreport.CodeTargetNotEmpty, Reason: moverreport.ReasonTargetNotEmpty, Count: 1, Err: err,
			Message: "the target has lost its marker: another mover has completed this copy, so this one must not write any more"}
	}
	return newFault(target, "looking at", o.marker.Name(), err)
}

// removeMarker ends the checks and deletes the marker, because the copy is complete.
func (o *owner) removeMarker() error {
	if err := o.checkOwned(); err != nil {
		return err
	}
	o.releaseTarget()
	if err := ignoringEINTR(func() error { return unix.Unlinkat(o.dst.fd, markerName, 0) }); err != nil && err != unix.ENOENT {
		return newFault(target, "deleting", markerName, err)
	}
	return nil
}

// releaseTarget ends the checks.
func (o *owner) releaseTarget() {
	if o.marker != nil {
		o.marker.Close()
		o.marker = nil
	}
}

// invalidate makes the next run copy a file again whose contents turned out to be wrong although its attributes are
// right. It changes the file's time. The call may fail; that is why --checksum exists.
func (o *owner) invalidate(dirfd int, e *entry) { o.invalidateObject(named(dirfd, e.name), e) }

func (o *owner) invalidateObject(x object, e *entry) {
	if e.meta.isRegular() && o.checkOwned() == nil {
		stale := meta{mtimeSec: e.meta.mtimeSec - 1}
		_ = x.setTimes(stale.times())
	}
}

// isOwnName reports whether a name in the target belongs to the mover and stays until the copy is complete.
func (o *owner) isOwnName(d *dir, name string) bool {
	return o.marked && d.parent == nil && name == markerName
}
