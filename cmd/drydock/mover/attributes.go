//go:build linux

package mover

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// sameAttributes reports whether two inodes have equal stat attributes. It ignores extended attributes and contents.
func sameAttributes(a, b *meta) bool {
	return a.kind() == b.kind() && a.permissions() == b.permissions() && a.uid == b.uid && a.gid == b.gid &&
		a.size == b.size && a.mtimeSec == b.mtimeSec && a.mtimeNsec == b.mtimeNsec
}

// setOwner is the first step on a new entry: it fails early if rights are missing, and later steps restore what the
// kernel clears. It does nothing if the owner is right already.
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

// setAttributes is the last step, after owner and contents. Extended attributes come before the mode, because an ACL
// changes the mode. Times come last.
func setAttributes(o object, want *meta, attrs []xattr) (op string, err error) {
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

// checkAttributes fails if the target does not hold the attributes that were set. An inode may be too small for
// nanoseconds, and a network file system may silently ignore owner and mode.
func checkAttributes(o object, want *meta) (op string, err error) {
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

// setMode sets the mode and checks that the kernel accepted the set-id bits. It silently drops setgid if the group is
// not the caller's.
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
