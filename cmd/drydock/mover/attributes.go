//go:build linux

package mover

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// sameAttributes says whether two inodes look the same but for extended attributes and contents.
func sameAttributes(a, b *meta) bool {
	return a.kind() == b.kind() && a.permissions() == b.permissions() && a.uid == b.uid && a.gid == b.gid &&
		a.size == b.size && a.mtimeSec == b.mtimeSec && a.mtimeNsec == b.mtimeNsec
}

// setOwner is the first step on a new entry: it fails early where the rights are missing, and later steps restore what
// the kernel clears. It does nothing where the owner is right already.
func setOwner(o object, want *meta) (op string, err error) {
	st, err := o.stat()
	if err != nil {
		return "looking at", err
	}
	uid, gid := -1, -1
	if st.Uid != want.uid {
		uid = int(want.uid)
	}
	if st.Gid != want.gid {
		gid = int(want.gid)
	}
	if uid == -1 && gid == -1 {
		return "", nil
	}
	op = "setting owner " + strconv.Itoa(int(want.uid)) + ":" + strconv.Itoa(int(want.gid)) + " on"
	return op, o.chown(uid, gid)
}

// setRest is the last step, after owner and contents: attributes before the mode, since an ACL changes it, and times at
// the end.
func setRest(o object, want *meta, attrs []xattr) (op string, err error) {
	if err := o.setXattrs(attrs); err != nil {
		return "setting extended attributes on", err
	}
	if !want.isSymlink() {
		if err := setMode(o, want.permissions()); err != nil {
			return "setting mode 0" + strconv.FormatUint(uint64(want.permissions()), 8) + " on", err
		}
	}
	return "setting the time of", o.setTimes(want.times())
}

// checkKept fails if the target does not hold what was set: an inode may be too small for nanoseconds, and a network's file
// system may ignore owner and mode without saying so.
func checkKept(o object, want *meta) (op string, err error) {
	st, err := o.stat()
	if err != nil {
		return "looking at", err
	}
	have := metaOf(&st)
	if sameAttributes(want, &have) {
		return "", nil
	}
	return "keeping the attributes of", fmt.Errorf("%w: %s", errNotKept, strings.Join(attributeDifferences(want, &have), ", "))
}

// setMode looks whether set-id bits were accepted: the kernel drops setgid silently if the group is not the caller's.
func setMode(o object, mode uint32) error {
	if err := o.chmod(mode); err != nil || mode&(unix.S_ISUID|unix.S_ISGID) == 0 {
		return err
	}
	st, err := o.stat()
	if err == nil && st.Mode&^unix.S_IFMT != mode {
		err = errDropped
	}
	return err
}
