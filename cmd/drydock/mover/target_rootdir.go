//go:build linux

package mover

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// rootDirs compares and sets the attributes of the root directories.
type rootDirs struct{ *job }

// A process without root's rights cannot always set the attributes of the target's root directory, which the platform created.
// Owner, mode and ACL must be equal nevertheless. Only the group and the rights that the platform sets for a pod's
// fsGroup may differ.

// fsGroupBits are the rights that the platform gives to the group fsGroup.
const fsGroupBits = unix.S_ISGID | 0o770

// rootDifferences lists the differences between the root directories. It ignores differences that the platform causes.
// Only a directory's owner can set its time.
func rootDifferences(src, dst snapshot, by identity) []string {
	if by.isIn(dst.meta.gid) {
		dst.meta.gid = src.meta.gid
		dst.meta.mode = dst.meta.mode&^fsGroupBits | src.meta.mode&fsGroupBits
	}
	if dst.meta.uid != by.uid {
		dst.meta.mtimeSec, dst.meta.mtimeNsec = src.meta.mtimeSec, src.meta.mtimeNsec
	}
	return differences(&src, &dst, nil, false)
}

// attainableRoot returns the target's root as this process can make it.
func attainableRoot(src, dst snapshot, by identity) snapshot {
	var attrs []xattr // sorted by name, like the source's
	for _, x := range src.attrs {
		have := slices.ContainsFunc(dst.attrs, func(y xattr) bool { return sameXattrs([]xattr{x}, []xattr{y}) })
		if have || dst.meta.uid == by.uid || strings.HasPrefix(x.name, "user.") {
			attrs = append(attrs, x)
		}
	}
	for _, x := range dst.attrs {
		if dst.meta.uid != by.uid && !slices.ContainsFunc(src.attrs, func(y xattr) bool { return x.name == y.name }) {
			attrs = append(attrs, x) // an ACL that only the directory's owner can remove
		}
	}
	dst.attrs = attrs
	dst.meta.mtimeSec, dst.meta.mtimeNsec = src.meta.mtimeSec, src.meta.mtimeNsec
	if dst.meta.uid != by.uid {
		return dst
	}
	dst.meta.mode = src.meta.mode
	if by.isIn(src.meta.gid) {
		dst.meta.gid = src.meta.gid
	}
	return dst
}

// checkRoot fails before anything is copied if the target's root cannot become faithful.
func (r *rootDirs) checkRoot() error {
	by, err := self()
	if err != nil || by.isRoot() {
		return err
	}
	both, err := r.readRoots()
	if err != nil {
		return err
	}
	return notKeptError(rootDifferences(both[source], attainableRoot(both[source], both[target], by), by))
}

// finishForeignRoot sets the attributes that this process may set. It fails if the root is not faithful afterwards.
func (r *rootDirs) finishForeignRoot(fd int, attrs []xattr) error {
	want := &r.tree.top.self.meta
	for _, set := range []func() (string, error){
		func() (string, error) { return setOwner(opened(fd), want) },
		func() (string, error) { return setAttributes(opened(fd), want, attrs) },
	} {
		op, err := set()
		if err == nil {
			continue
		}
		if f := (newFault(target, op, "", err)); kindOf(f) != kindDenied {
			return f
		}
	}
	return r.verifyRoot()
}

// verifyRoot compares the attributes of the root directories.
func (r *rootDirs) verifyRoot() error {
	both, err := r.readRoots()
	if err != nil {
		return err
	}
	by, err := self()
	if err != nil {
		return err
	}
	if by.isRoot() {
		return differenceError("", differences(&both[source], &both[target], nil, false))
	}
	return notKeptError(rootDifferences(both[source], both[target], by))
}

// readRoots reads the attributes of both roots. In a first pass the source's come from the scan, because its time
// changes while it is in use.
func (r *rootDirs) readRoots() (both [2]snapshot, err error) {
	for side, r := range []*root{r.src, r.dst} {
		st, err := fstat(r.fd)
		if err != nil {
			return both, newFault(r.side, "looking at", "", err)
		}
		both[side].meta = metaOf(&st)
		if both[side].attrs, err = opened(r.fd).xattrs(nil); err != nil {
			return both, newFault(r.side, "reading extended attributes of", "", err)
		}
	}
	if r.pass == PassFirst {
		both[source].meta = r.tree.top.self.meta
	}
	return both, nil
}

// notKeptError returns an error that lists the differences, or nil if there are none.
func notKeptError(differences []string) error {
	if len(differences) == 0 {
		return nil
	}
	return newFault(target, "keeping the attributes of", "", fmt.Errorf("%w: %s", errNotKept, strings.Join(differences, ", ")))
}

// differenceError returns an error for an entry of the target with differences, or nil if there are none.
func differenceError(path string, differences []string) error {
	if len(differences) == 0 {
		return nil
	}
	return newFault(target, "comparing", path, mismatch(strings.Join(differences, ", ")))
}
