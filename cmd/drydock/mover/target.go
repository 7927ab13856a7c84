//go:build linux

package mover

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"drydock.dev/shared/moverreport"
)

// markerName is in the target's root from before the first data until the copy is complete. It says which operation fills
// the target.
const markerName = tempPrefix + "target.marker"

const markerMagic = "drydock-target-1\n"

// ownTarget fails if the target holds anything that this operation did not write, and marks the target otherwise.
//
// A complete copy has no marker any more: its mover may be started again before the platform has seen its end. It is known
// by the entries of its root, which all look like the source's.
func (c *copier) ownTarget() error {
	if !c.ownOnly {
		return nil
	}
	if c.tree.top.find(markerName) != nil {
		return &fault{source, "copying", markerName, errOwnName}
	}
	if c.isMarked() {
		c.keep(markerName)
		return nil
	}
	strange, err := c.strangeNames()
	if err != nil {
		return err
	}
	if len(strange) > 0 && !c.refill {
		return targetNotEmpty(strange)
	}
	if err := c.mark(); err != nil {
		return &fault{target, opCreating, markerName, err}
	}
	if _, err := lstatat(c.src.fd, markerName); err == nil { // one directory by two mounts, so their numbers differ
		_ = unix.Unlinkat(c.dst.fd, markerName, 0)
		return errNotSeparate
	}
	c.keep(markerName)
	return nil
}

// isMarked reports whether the marker in the target is this operation's.
func (c *copier) isMarked() bool {
	fd, err := openat(c.dst.fd, markerName, unix.O_RDONLY, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	want := c.markerText()
	buf := make([]byte, len(want)+1)
	n, err := again(func() (int, error) { return unix.Pread(fd, buf, 0) })
	return err == nil && string(buf[:n]) == want
}

func (c *copier) markerText() string { return markerMagic + c.token + "\n" }

// strangeNames lists the names in the target's root that are neither the file system's, nor a marker, nor those of a
// complete copy. While the source is written to, no copy is complete.
func (c *copier) strangeNames() ([]string, error) {
	names, err := readdir(c.dst.fd)
	if err != nil {
		return nil, &fault{target, "reading the directory", "", err}
	}
	var strange []string
	for _, n := range names {
		known, err := c.isKnown(n.name)
		if err != nil {
			return nil, &fault{target, "looking at", n.name, err}
		}
		if !known {
			strange = append(strange, n.name)
		}
	}
	return strange, nil
}

func (c *copier) isKnown(name string) (bool, error) {
	if name == markerName { // a torn one, or one of an operation that wrote nothing else
		return true, nil
	}
	if name == lostFound {
		if state, err := lostFoundIn(c.dst.fd); err != nil || state != lostFoundOrdinary {
			return true, err
		}
	}
	e := c.tree.top.find(name)
	if e == nil || c.pass == PassWarm {
		return false, nil
	}
	st, err := lstatat(c.dst.fd, name)
	if err != nil {
		return false, err
	}
	have := metaOf(&st)
	return sameAttributes(&e.meta, &have), nil
}

// mark makes the marker durable before anything else is written.
func (c *copier) mark() error {
	_ = unix.Unlinkat(c.dst.fd, markerName, 0) // a torn one; if it stays, the next call says why
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
	return againErr(func() error { return unix.Fsync(c.dst.fd) })
}

func targetNotEmpty(names []string) error {
	const shownNames = 3
	what := make([]string, 0, shownNames)
	for _, n := range names[:min(len(names), shownNames)] {
		what = append(what, quote(n))
	}
	return &Error{Code: moverreport.CodeTargetNotEmpty, Reason: moverreport.ReasonTargetNotEmpty, Count: len(names),
		Message: fmt.Sprintf("the target's root holds %s that this operation did not write (%s); nothing was changed; use an empty volume",
			countOf(len(names)), strings.Join(what, ", "))}
}
