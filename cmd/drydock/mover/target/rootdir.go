//go:build linux

package target

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/fault"
	"drydock.dev/cmd/drydock/mover/fsys"
	"drydock.dev/cmd/drydock/mover/tree"
)

// Roots compares and sets the attributes of the root directories.
type Roots struct{ *tree.Job }

// A process without root's rights cannot always set the attributes of the target's root directory, which the platform created.
// Owner, mode and ACL must be equal nevertheless. Only the group and the rights that the platform sets for a pod's
// fsGroup may differ.

// fsGroupBits are the rights that the platform gives to the group fsGroup.
const fsGroupBits = unix.S_ISGID | 0o770

// rootDifferences lists the differences between the root directories. It ignores differences that the platform causes.
// Only a directory's owner can set its time.
func rootDifferences(src, dst fsys.Snapshot, by fsys.Identity) []string {
	if by.IsIn(dst.Meta.Gid) {
		dst.Meta.Gid = src.Meta.Gid
		dst.Meta.Mode = dst.Meta.Mode&^fsGroupBits | src.Meta.Mode&fsGroupBits
	}
	if dst.Meta.Uid != by.Uid {
		dst.Meta.MtimeSec, dst.Meta.MtimeNsec = src.Meta.MtimeSec, src.Meta.MtimeNsec
	}
	return tree.Differences(&src, &dst, nil, false)
}

// attainableRoot returns the target's root as this process can make it.
func attainableRoot(src, dst fsys.Snapshot, by fsys.Identity) fsys.Snapshot {
	var attrs []fsys.Xattr // sorted by name, like the source's
	for _, x := range src.Attrs {
		have := slices.ContainsFunc(dst.Attrs, func(y fsys.Xattr) bool { return fsys.SameXattrs([]fsys.Xattr{x}, []fsys.Xattr{y}) })
		if have || dst.Meta.Uid == by.Uid || strings.HasPrefix(x.Name, "user.") {
			attrs = append(attrs, x)
		}
	}
	for _, x := range dst.Attrs {
		if dst.Meta.Uid != by.Uid && !slices.ContainsFunc(src.Attrs, func(y fsys.Xattr) bool { return x.Name == y.Name }) {
			attrs = append(attrs, x) // an ACL that only the directory's owner can remove
		}
	}
	dst.Attrs = attrs
	dst.Meta.MtimeSec, dst.Meta.MtimeNsec = src.Meta.MtimeSec, src.Meta.MtimeNsec
	if dst.Meta.Uid != by.Uid {
		return dst
	}
	dst.Meta.Mode = src.Meta.Mode
	if by.IsIn(src.Meta.Gid) {
		dst.Meta.Gid = src.Meta.Gid
	}
	return dst
}

// CheckRoot fails before anything is copied if the target's root cannot become faithful.
func (r *Roots) CheckRoot() error {
	by, err := fsys.Self()
	if err != nil || by.IsRoot() {
		return err
	}
	both, err := r.readRoots()
	if err != nil {
		return err
	}
	return notKeptError(rootDifferences(both[fault.Source], attainableRoot(both[fault.Source], both[fault.Target], by), by))
}

// FinishForeignRoot sets the attributes that this process may set. It fails if the root is not faithful afterwards.
func (r *Roots) FinishForeignRoot(fd int, attrs []fsys.Xattr) error {
	want := &r.Tree.Top.Self.Meta
	for _, set := range []func() (string, error){
		func() (string, error) { return fsys.SetOwner(fsys.Opened(fd), want) },
		func() (string, error) { return fsys.SetAttributes(fsys.Opened(fd), want, attrs) },
	} {
		op, err := set()
		if err == nil {
			continue
		}
		if f := (fault.New(fault.Target, op, "", err)); fault.KindOf(f) != fault.KindDenied {
			return f
		}
	}
	return r.VerifyRoot()
}

// VerifyRoot compares the attributes of the root directories.
func (r *Roots) VerifyRoot() error {
	both, err := r.readRoots()
	if err != nil {
		return err
	}
	by, err := fsys.Self()
	if err != nil {
		return err
	}
	if by.IsRoot() {
		return DifferenceError("", tree.Differences(&both[fault.Source], &both[fault.Target], nil, false))
	}
	return notKeptError(rootDifferences(both[fault.Source], both[fault.Target], by))
}

// readRoots reads the attributes of both roots. In a first pass the source's come from the scan, because its time
// changes while it is in use.
func (r *Roots) readRoots() (both [2]fsys.Snapshot, err error) {
	for side, r := range []*fsys.Root{r.Src, r.Dst} {
		st, err := fsys.Fstat(r.Fd)
		if err != nil {
			return both, fault.New(r.Side, "looking at", "", err)
		}
		both[side].Meta = fsys.MetaOf(&st)
		if both[side].Attrs, err = fsys.Opened(r.Fd).Xattrs(nil); err != nil {
			return both, fault.New(r.Side, "reading extended attributes of", "", err)
		}
	}
	if r.Pass == tree.PassFirst {
		both[fault.Source].Meta = r.Tree.Top.Self.Meta
	}
	return both, nil
}

// notKeptError returns an error that lists the differences, or nil if there are none.
func notKeptError(differences []string) error {
	if len(differences) == 0 {
		return nil
	}
	return fault.New(fault.Target, "keeping the attributes of", "", fmt.Errorf("%w: %s", fault.ErrNotKept, strings.Join(differences, ", ")))
}

// DifferenceError returns an error for an entry of the target with differences, or nil if there are none.
func DifferenceError(path string, differences []string) error {
	if len(differences) == 0 {
		return nil
	}
	return fault.New(fault.Target, "comparing", path, fault.Mismatch(strings.Join(differences, ", ")))
}
