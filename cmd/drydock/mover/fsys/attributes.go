//go:build linux

package fsys

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/fault"
)

// SameAttributes reports whether two inodes have the same type, mode, owner, group, size and modification time. It ignores
// extended attributes and contents.
func SameAttributes(a, b *Meta) bool {
	return a.Kind() == b.Kind() && a.Permissions() == b.Permissions() && a.Uid == b.Uid && a.Gid == b.Gid &&
		a.Size == b.Size && a.MtimeSec == b.MtimeSec && a.MtimeNsec == b.MtimeNsec
}

// AttributeDifferences lists the differences in the attributes that SameAttributes compares.
func AttributeDifferences(a, b *Meta) (found []string) {
	note := PhraseCollector(&found)
	note(a.Kind() != b.Kind(), "its type is 0%o, not 0%o", b.Kind(), a.Kind())
	note(a.Permissions() != b.Permissions(), "its mode is 0%o, not 0%o", b.Permissions(), a.Permissions())
	note(a.Uid != b.Uid || a.Gid != b.Gid, "its owner is %d:%d, not %d:%d", b.Uid, b.Gid, a.Uid, a.Gid)
	note(a.Size != b.Size, "its size is %d, not %d", b.Size, a.Size)
	note(a.MtimeSec != b.MtimeSec || a.MtimeNsec != b.MtimeNsec,
		"its time is %d.%09d, not %d.%09d", b.MtimeSec, b.MtimeNsec, a.MtimeSec, a.MtimeNsec)
	return found
}

// PhraseCollector returns a function that adds a phrase if something differs.
func PhraseCollector(found *[]string) func(differs bool, format string, args ...any) {
	return func(differs bool, format string, args ...any) {
		if differs {
			*found = append(*found, fmt.Sprintf(format, args...))
		}
	}
}

// SetOwner sets owner and group if they differ. Call it first on a new entry: a missing right is found before the
// contents are copied, and the later steps set again the bits and attributes that the kernel clears at a change of owner.
func SetOwner(o Object, want *Meta) (op string, err error) {
	st, err := o.stat()
	if err != nil {
		return "looking at", err
	}
	uid, gid := -1, -1
	if st.Uid != want.Uid {
		uid = int(want.Uid)
	}
	if st.Gid != want.Gid {
		gid = int(want.Gid)
	}
	if uid == -1 && gid == -1 {
		return "", nil
	}
	op = "setting owner " + strconv.Itoa(int(want.Uid)) + ":" + strconv.Itoa(int(want.Gid)) + " on"
	return op, o.chown(uid, gid)
}

// SetAttributes sets the extended attributes, then the mode, then the times. The mode comes after the ACLs, because an ACL
// changes it. Call SetAttributes last: a change of the owner or the contents would undo a part of it.
func SetAttributes(o Object, want *Meta, attrs []Xattr) (op string, err error) {
	if err := o.setXattrs(attrs); err != nil {
		return "setting extended attributes on", err
	}
	if !want.IsSymlink() {
		if err := setMode(o, want.Permissions()); err != nil {
			return "setting mode 0" + strconv.FormatUint(uint64(want.Permissions()), 8) + " on", err
		}
	}
	return "setting the time of", o.SetTimes(want.Times())
}

// CheckAttributes reads the attributes again and returns an error if they differ from the ones set. An inode may be too
// small for nanoseconds, and a network file system may silently ignore owner and mode.
func CheckAttributes(o Object, want *Meta) (op string, err error) {
	st, err := o.stat()
	if err != nil {
		return "looking at", err
	}
	have := MetaOf(&st)
	if SameAttributes(want, &have) {
		return "", nil
	}
	return "keeping the attributes of", fmt.Errorf("%w: %s", fault.ErrNotKept, strings.Join(AttributeDifferences(want, &have), ", "))
}

// HasAttributes reports whether an object has these attributes already.
func HasAttributes(o Object, want *Meta, attrs []Xattr) bool {
	st, err := o.stat()
	have := MetaOf(&st)
	if err != nil || !SameAttributes(want, &have) {
		return false
	}
	other, err := o.Xattrs(nil)
	return err == nil && SameXattrs(attrs, other)
}

// setMode sets the mode. If the mode has set-id bits, setMode reads it again and returns an error if the kernel has dropped
// one. The kernel silently drops setgid if the process is not in the group and lacks CAP_FSETID.
func setMode(o Object, mode uint32) error {
	if err := o.Chmod(mode); err != nil || mode&(unix.S_ISUID|unix.S_ISGID) == 0 {
		return err
	}
	st, err := o.stat()
	if err == nil && st.Mode&^unix.S_IFMT != mode {
		err = fault.ErrDropped
	}
	return err
}

// Identity is the user and the groups of a process.
type Identity struct {
	Uid    uint32
	Groups []int
}

// Self returns the identity of this process.
func Self() (Identity, error) {
	groups, err := os.Getgroups()
	return Identity{uint32(os.Geteuid()), append(groups, os.Getegid())}, err // ids have 32 bits
}

func (i Identity) IsRoot() bool           { return i.Uid == 0 }
func (i Identity) IsIn(group uint32) bool { return slices.Contains(i.Groups, int(group)) }

// MayRead considers owner and mode only.
func (i Identity) MayRead(st *FileStat) bool {
	need := uint32(0o4)
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		need = 0o5
	}
	switch {
	case st.Uid == i.Uid:
		return st.Mode>>6&need == need
	case i.IsIn(st.Gid):
		return st.Mode>>3&need == need
	}
	return st.Mode&need == need
}
