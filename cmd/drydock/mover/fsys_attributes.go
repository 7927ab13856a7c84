//go:build linux

package mover

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// sameAttributes reports whether two inodes have the same type, mode, owner, group, size and modification time. It ignores
// extended attributes and contents.
func sameAttributes(a, b *meta) bool {
	return a.kind() == b.kind() && a.permissions() == b.permissions() && a.uid == b.uid && a.gid == b.gid &&
		a.size == b.size && a.mtimeSec == b.mtimeSec && a.mtimeNsec == b.mtimeNsec
}

// attributeDifferences lists the differences in the attributes that sameAttributes compares.
func attributeDifferences(a, b *meta) (found []string) {
	note := phraseCollector(&found)
	note(a.kind() != b.kind(), "its type is 0%o, not 0%o", b.kind(), a.kind())
	note(a.permissions() != b.permissions(), "its mode is 0%o, not 0%o", b.permissions(), a.permissions())
	note(a.uid != b.uid || a.gid != b.gid, "its owner is %d:%d, not %d:%d", b.uid, b.gid, a.uid, a.gid)
	note(a.size != b.size, "its size is %d, not %d", b.size, a.size)
	note(a.mtimeSec != b.mtimeSec || a.mtimeNsec != b.mtimeNsec,
		"its time is %d.%09d, not %d.%09d", b.mtimeSec, b.mtimeNsec, a.mtimeSec, a.mtimeNsec)
	return found
}

// phraseCollector returns a function that adds a phrase if something differs.
func phraseCollector(found *[]string) func(differs bool, format string, args ...any) {
	return func(differs bool, format string, args ...any) {
		if differs {
			*found = append(*found, fmt.Sprintf(format, args...))
		}
	}
}

// setOwner sets owner and group if they differ. Call it first on a new entry: a missing right is found before the
// contents are copied, and the later steps set again the bits and attributes that the kernel clears at a change of owner.
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

// setAttributes sets the extended attributes, then the mode, then the times. The mode comes after the ACLs, because an ACL
// changes it. Call setAttributes last: a change of the owner or the contents would undo a part of it.
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

// checkAttributes reads the attributes again and returns an error if they differ from the ones set. An inode may be too
// small for nanoseconds, and a network file system may silently ignore owner and mode.
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

// hasAttributes reports whether an object has these attributes already.
func hasAttributes(o object, want *meta, attrs []xattr) bool {
	st, err := o.stat()
	have := metaOf(&st)
	if err != nil || !sameAttributes(want, &have) {
		return false
	}
	other, err := o.xattrs(nil)
	return err == nil && sameXattrs(attrs, other)
}

// setMode sets the mode. If the mode has set-id bits, setMode reads it again and returns an error if the kernel has dropped
// one. The kernel silently drops setgid if the process is not in the group and lacks CAP_FSETID.
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

// identity is the user and the groups of a process.
type identity struct {
	uid    uint32
	groups []int
}

// self returns the identity of this process.
func self() (identity, error) {
	groups, err := os.Getgroups()
	return identity{uint32(os.Geteuid()), append(groups, os.Getegid())}, err // ids have 32 bits
}

func (i identity) isRoot() bool           { return i.uid == 0 }
func (i identity) isIn(group uint32) bool { return slices.Contains(i.groups, int(group)) }

// mayRead considers owner and mode only.
func (i identity) mayRead(st *fileStat) bool {
	need := uint32(0o4)
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		need = 0o5
	}
	switch {
	case st.Uid == i.uid:
		return st.Mode>>6&need == need
	case i.isIn(st.Gid):
		return st.Mode>>3&need == need
	}
	return st.Mode&need == need
}
