//go:build linux

package mover

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// A process that is not root cannot always set the attributes of the target's root directory: the platform has made it.
// Owner, mode and ACL have to be equal nevertheless. Only the group and the rights that the platform sets for a pod's
// fsGroup may differ.

// fsGroupBits are the rights that the platform gives to the group fsGroup.
const fsGroupBits = unix.S_ISGID | 0o770

// identity is the user and the groups of this process.
type identity struct {
	uid    uint32
	groups []int
}

// self returns the identity of this process.
func self() (identity, error) {
	groups, err := os.Getgroups()
	return identity{uint32(os.Geteuid()), append(groups, os.Getegid())}, err //nolint:gosec // ids have 32 bits
}

func (i identity) isRoot() bool           { return i.uid == 0 }
func (i identity) isIn(group uint32) bool { return slices.Contains(i.groups, int(group)) }

// rootDifferences lists what differs between the root directories beyond what the platform sets. Only its owner can set a
// directory's time.
func rootDifferences(src, dst looks, by identity) []string {
	if by.isIn(dst.meta.gid) {
		dst.meta.gid = src.meta.gid
		dst.meta.mode = dst.meta.mode&^fsGroupBits | src.meta.mode&fsGroupBits
	}
	if dst.meta.uid != by.uid {
		dst.meta.mtimeSec, dst.meta.mtimeNsec = src.meta.mtimeSec, src.meta.mtimeNsec
	}
	return differences(&src, &dst, nil)
}

// settable returns the target's root as this process can make it.
func settable(src, dst looks, by identity) looks {
	var attrs []xattr // in the order of their names, as the source's
	for _, x := range src.attrs {
		have := slices.ContainsFunc(dst.attrs, func(y xattr) bool { return sameXattrs([]xattr{x}, []xattr{y}) })
		if have || dst.meta.uid == by.uid || strings.HasPrefix(x.name, "user.") {
			attrs = append(attrs, x)
		}
	}
	for _, x := range dst.attrs {
		if dst.meta.uid != by.uid && !slices.ContainsFunc(src.attrs, func(y xattr) bool { return x.name == y.name }) {
			attrs = append(attrs, x) // an ACL that only its owner could remove
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

// checkRoot fails, before anything is copied, if the target's root cannot become faithful.
func (c *copier) checkRoot() error {
	by, err := self()
	if err != nil || by.isRoot() {
		return err
	}
	both, err := c.lookAtRoots()
	if err != nil {
		return err
	}
	return notKept(rootDifferences(both[source], settable(both[source], both[target], by), by))
}

// finishForeignRoot sets the attributes that this process may set, and fails if the root is not faithful then.
func (c *copier) finishForeignRoot(fd int, attrs []xattr) error {
	want := &c.tree.top.self.meta
	for _, set := range []func() (string, error){
		func() (string, error) { return setOwner(opened(fd), want) },
		func() (string, error) { return setRest(opened(fd), want, attrs) },
	} {
		op, err := set()
		if err == nil {
			continue
		}
		if f := (&fault{target, op, "", err}); kindOf(f) != kindDenied {
			return f
		}
	}
	return c.verifyRoot()
}

// verifyRoot compares the attributes of the root directories.
func (c *copier) verifyRoot() error {
	both, err := c.lookAtRoots()
	if err != nil {
		return err
	}
	by, err := self()
	if err != nil {
		return err
	}
	if by.isRoot() {
		return differ("", &both[source], &both[target], nil)
	}
	return notKept(rootDifferences(both[source], both[target], by))
}

// lookAtRoots reads the attributes of both roots, the source's as they were scanned: while it is written to, its time
// changes.
func (c *copier) lookAtRoots() (both [2]looks, err error) {
	for side, r := range []*root{c.src, c.dst} {
		st, err := fstat(r.fd)
		if err != nil {
			return both, &fault{r.side, "looking at", "", err}
		}
		both[side].meta = metaOf(&st)
		if both[side].attrs, err = opened(r.fd).xattrs(nil); err != nil {
			return both, &fault{r.side, "reading extended attributes of", "", err}
		}
	}
	if c.pass == PassWarm {
		both[source].meta = c.tree.top.self.meta
	}
	return both, nil
}

// notKept is nil without differences.
func notKept(differences []string) error {
	if len(differences) == 0 {
		return nil
	}
	return &fault{target, "keeping the attributes of", "", fmt.Errorf("%w: %s", errNotKept, strings.Join(differences, ", "))}
}
