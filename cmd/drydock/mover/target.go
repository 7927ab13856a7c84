//go:build linux

package mover

import (
	"context"
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

// checkOwned fails if the marker was deleted: another mover has completed the copy, and the workload may run on it. That happens on shared
// storage if the cluster declares this mover's pod ended because its node is lost, and the node comes back. Each write must follow a check,
// although a write that the server has not answered yet can still be late.
func (c *copier) checkOwned() error {
	if c.marker == nil {
		return nil
	}
	st, err := fstat(int(c.marker.Fd()))
	switch {
	case err == nil && st.Nlink > 0:
		return nil
	case err == nil, err == unix.ESTALE: // a network file system has lost a file that another node has deleted
		return &Error{Code: moverreport.CodeTargetNotEmpty, Reason: moverreport.ReasonTargetNotEmpty, Count: 1, Err: err,
			Message: "the target has lost its marker: another mover has completed this copy, so this one must not write any more"}
	}
	return &fault{target, "looking at", c.marker.Name(), err}
}

// releaseTarget ends the checks, before the marker is deleted.
func (c *copier) releaseTarget() {
	if c.marker != nil {
		c.marker.Close()
		c.marker = nil
	}
}

// clean removes two kinds of names from a directory of the target: names that the source does not have, and names that
// are a directory on one side only. The rename that replaces the old entry handles other changes of type.
func (c *copier) clean(ctx context.Context, fd int, d *dir) error {
	names, err := readdir(fd)
	if err != nil {
		return &fault{target, "reading the directory", d.path(), err}
	}
	d.fresh = d.fresh || !containsName(names, func(n dirent) bool { return !d.isLostFound(n.name) && !c.isOwnName(d, n.name) })
	known := finder{dir: d}
	for n := range names.all() {
		if c.isOwnName(d, n.name) {
			continue
		}
		keep, err := c.emptyLostFound(ctx, fd, d, n.name)
		if err := c.problems.collect(err); err != nil {
			return err
		}
		if keep {
			continue
		}
		if n.kind == 0 {
			st, err := lstatat(fd, n.name)
			if err != nil {
				return &fault{target, "looking at", d.join(n.name), err}
			}
			n.kind = st.Mode & unix.S_IFMT
		}
		e := known.find(n.name)
		if e != nil && e.meta.isDir() == (n.kind == unix.S_IFDIR) {
			continue
		}
		r := remover{copier: c, path: d.join(n.name)}
		if err := c.problems.collect(r.removeTree(ctx, fd, n)); err != nil {
			return err
		}
	}
	return nil
}

// containsName reports whether a name of the list satisfies a condition.
func containsName(l nameList, condition func(dirent) bool) bool {
	for n := range l.all() {
		if condition(n) {
			return true
		}
	}
	return false
}

// space is the size of a file system in bytes, as statfs reports it.
type space struct {
	used int64
	free int64 // for a process without root's rights
	size int64 // usable without root's rights
}

func (r *root) space(hook func(*unix.Statfs_t)) (space, error) {
	var st unix.Statfs_t
	if err := ignoringEINTR(func() error { return unix.Fstatfs(r.fd, &st) }); err != nil {
		return space{}, &fault{r.side, "asking for the size of the file system", "", err}
	}
	if hook != nil && r.side == target {
		hook(&st)
	}
	unit := st.Frsize
	if unit == 0 {
		unit = st.Bsize
	}
	s := space{used: int64(st.Blocks-st.Bfree) * unit, free: int64(st.Bavail) * unit}
	s.size = s.used + s.free
	return s, nil
}

// reserve returns how many bytes must stay free.
func (s space) reserve(percent int) int64 {
	return s.size/100*int64(percent) + s.size%100*int64(percent)/100
}

// checkSpaceBefore fails before anything is written if the target is too small for the source and the margin.
//
// The source's size is the smaller of two numbers that may both be too high. The used space of its file system includes
// data outside the tree: directories above it, deleted files that are still open, and the metadata of a larger file
// system. The sum of its files counts shared extents twice.
func (c *copier) checkSpaceBefore() error {
	if c.margin <= 0 {
		return nil
	}
	src, err := c.src.space(nil)
	if err != nil {
		return err
	}
	dst, err := c.dst.space(c.hooks.statfs)
	if err != nil {
		return err
	}
	used := min(src.used, c.meter.bytesTotal.Load())
	if needed := used + dst.reserve(c.margin); needed > dst.size {
		return tooSmall("the source uses %s; with a margin of %d%%, %s are needed, and the target has %s",
			moverreport.Size(used), c.margin, moverreport.Size(needed), moverreport.Size(dst.size))
	}
	return nil
}

// checkSpaceAfter fails if the copy used up the margin nevertheless: metadata needs space, and the target may not share
// or compress like the source.
func (c *copier) checkSpaceAfter() error {
	if c.margin <= 0 {
		return nil
	}
	dst, err := c.dst.space(c.hooks.statfs)
	if err != nil {
		return err
	}
	if needed := dst.used + dst.reserve(c.margin); needed > dst.size {
		return tooSmall("the copy uses %s; with a margin of %d%%, %s are needed, and the target has %s",
			moverreport.Size(dst.used), c.margin, moverreport.Size(needed), moverreport.Size(dst.size))
	}
	return nil
}

func tooSmall(format string, args ...any) error {
	return &Error{Code: moverreport.CodeNoSpace, Reason: moverreport.ReasonNoSpace,
		Message: fmt.Sprintf(format, args...)}
}
