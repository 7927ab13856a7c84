//go:build linux

package mover

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"drydock.dev/shared/moverreport"
)

// markerName is a file in the target's root, from before the first data until the copy is complete. It says which
// operation fills the target.
const markerName = tempPrefix + "target.marker"

const markerMagic = "drydock-target-1\n"

// checkOwnership fails if the target holds data that this operation did not write. Otherwise it marks the target.
//
// A complete copy has no marker any more, and its mover may start again before the platform has seen its end. Such a
// copy is recognized because all entries of its root look like the source's.
func (c *copier) checkOwnership() error {
	if !c.ownOnly {
		return nil
	}
	if c.tree.top.find(markerName) != nil {
		return &fault{source, "copying", markerName, errOwnName}
	}
	if c.hasOwnMarker() {
		return c.ownTarget()
	}
	foreign, err := c.foreignNames()
	if err != nil {
		return err
	}
	if len(foreign) > 0 && !c.refill {
		return targetNotEmpty(foreign)
	}
	if err := c.writeMarker(); err != nil {
		return &fault{target, opCreating, markerName, err}
	}
	if _, err := lstatat(c.src.fd, markerName); err == nil { // the same directory by two mounts, with different device numbers
		_ = unix.Unlinkat(c.dst.fd, markerName, 0)
		return errNotSeparate
	}
	return c.ownTarget()
}

// ownTarget keeps the marker open for checkOwned.
func (c *copier) ownTarget() error {
	fd, err := openat(c.dst.fd, markerName, unix.O_RDONLY, 0)
	if err != nil {
		return &fault{target, "opening", markerName, err}
	}
	c.marker = os.NewFile(uintptr(fd), markerName)
	c.addOwnName(markerName)
	if st, err := fstat(fd); err == nil && st.Nlink == 0 { // this file system counts no links, so it cannot show a deletion
		c.releaseTarget()
	}
	return nil
}

// hasOwnMarker reports whether the target has the marker of this operation.
func (c *copier) hasOwnMarker() bool {
	fd, err := openat(c.dst.fd, markerName, unix.O_RDONLY, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	want := c.markerText()
	buf := make([]byte, len(want)+1)
	n, err := ignoringEINTRValue(func() (int, error) { return unix.Pread(fd, buf, 0) })
	return err == nil && string(buf[:n]) == want
}

func (c *copier) markerText() string { return markerMagic + c.token + "\n" }

// foreignNames lists the names in the target's root that belong to another use of the volume. Names of the file system,
// of a marker and of a complete copy do not. While the source is in use, no copy is complete.
func (c *copier) foreignNames() ([]string, error) {
	names, err := readdir(c.dst.fd)
	if err != nil {
		return nil, &fault{target, "reading the directory", "", err}
	}
	var foreign []string
	for n := range names.all() {
		known, err := c.isExpectedName(n.name)
		if err != nil {
			return nil, &fault{target, "looking at", n.name, err}
		}
		if !known {
			foreign = append(foreign, n.name)
		}
	}
	return foreign, nil
}

func (c *copier) isExpectedName(name string) (bool, error) {
	if name == markerName { // torn, or of an operation that wrote nothing else
		return true, nil
	}
	if name == lostFound {
		if state, err := lostFoundIn(c.dst.fd); err != nil || state != lostFoundOrdinary {
			return true, err
		}
	}
	e := c.tree.top.find(name)
	if e == nil || c.pass == PassFirst {
		return false, nil
	}
	st, err := lstatat(c.dst.fd, name)
	if err != nil {
		return false, err
	}
	have := metaOf(&st)
	return sameAttributes(&e.meta, &have), nil
}

// writeMarker makes the marker durable before anything else is written.
func (c *copier) writeMarker() error {
	_ = unix.Unlinkat(c.dst.fd, markerName, 0) // a torn marker; if this fails, the next call reports why
	fd, err := openat(c.dst.fd, markerName, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), markerName)
	_, err = f.WriteString(c.markerText())
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return ignoringEINTR(func() error { return unix.Fsync(c.dst.fd) })
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
