//go:build linux

package fsys

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/fault"
)

// Object is an entry whose attributes are read or set: an open file or directory (fd >= 0), or a name in an open
// directory. Such a name is never followed as a link.
type Object struct {
	fd    int
	dirfd int
	name  string
}

func Opened(fd int) Object                { return Object{fd: fd} }
func Named(dirfd int, name string) Object { return Object{fd: -1, dirfd: dirfd, name: name} }
func procPath(fd int) string              { return "/proc/self/fd/" + strconv.Itoa(fd) }
func (o Object) isOpen() bool             { return o.fd >= 0 }
func (o Object) procName() string         { return procPath(o.dirfd) + "/" + o.name }

func (o Object) stat() (unix.Stat_t, error) {
	if o.isOpen() {
		return Fstat(o.fd)
	}
	return Lstatat(o.dirfd, o.name)
}

// chown does not change an id of -1. The kernel clears set-id bits and file capabilities.
func (o Object) chown(uid, gid int) error {
	return IgnoringEINTR(func() error {
		if o.isOpen() {
			return unix.Fchown(o.fd, uid, gid)
		}
		return unix.Fchownat(o.dirfd, o.name, uid, gid, unix.AT_SYMLINK_NOFOLLOW)
	})
}

// Chmod sets the mode of anything except a symbolic link.
func (o Object) Chmod(mode uint32) error {
	if o.isOpen() {
		return IgnoringEINTR(func() error { return unix.Fchmod(o.fd, mode) })
	}
	fd, err := Openat(o.dirfd, o.name, unix.O_PATH, 0) // on older kernels fchmodat always follows links
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	st, err := Fstat(fd)
	if err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		err = unix.ELOOP
	}
	if err != nil {
		return err
	}
	return IgnoringEINTR(func() error { return unix.Chmod(procPath(fd), mode) })
}

func (o Object) SetTimes(ts []unix.Timespec) error {
	return IgnoringEINTR(func() error {
		if o.isOpen() {
			return futimens(o.fd, ts)
		}
		return unix.UtimesNanoAt(o.dirfd, o.name, ts, unix.AT_SYMLINK_NOFOLLOW)
	})
}

func (o Object) listxattr(buf []byte) (int, error) {
	return IgnoringEINTRValue(func() (int, error) {
		if o.isOpen() {
			return unix.Flistxattr(o.fd, buf)
		}
		return unix.Llistxattr(o.procName(), buf)
	})
}

func (o Object) getxattr(name string, buf []byte) (int, error) {
	return IgnoringEINTRValue(func() (int, error) {
		if o.isOpen() {
			return unix.Fgetxattr(o.fd, name, buf)
		}
		return unix.Lgetxattr(o.procName(), name, buf)
	})
}

func (o Object) setxattr(name string, value []byte) error {
	return IgnoringEINTR(func() error {
		if o.isOpen() {
			return unix.Fsetxattr(o.fd, name, value, 0)
		}
		return unix.Lsetxattr(o.procName(), name, value, 0)
	})
}

func (o Object) removexattr(name string) error {
	return IgnoringEINTR(func() error {
		if o.isOpen() {
			return unix.Fremovexattr(o.fd, name)
		}
		return unix.Lremovexattr(o.procName(), name)
	})
}

// Xattrs returns the attributes that are carried, sorted by name. A file system without attributes has none. It calls
// skipped, if not nil, for each other attribute.
func (o Object) Xattrs(skipped func(name string)) ([]Xattr, error) {
	names, err := o.xattrNames(skipped)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	list := make([]Xattr, 0, len(names))
	for _, name := range names {
		value, err := o.xattrValue(name)
		if err != nil {
			return nil, &XattrError{name, err}
		}
		if err := checkACL(name, value); err != nil {
			return nil, &XattrError{name, err}
		}
		list = append(list, Xattr{name, value})
	}
	return list, nil
}

func (o Object) xattrNames(skipped func(name string)) ([]string, error) {
	var small [512]byte
	buf := small[:]
	n, err := o.listxattr(buf)
	for err == unix.ERANGE {
		buf = make([]byte, 4*len(buf))
		n, err = o.listxattr(buf)
	}
	if err == unix.EOPNOTSUPP {
		return nil, nil
	}
	if err != nil || n == 0 {
		return nil, err
	}
	var names []string
	for _, name := range strings.Split(string(buf[:n-1]), "\x00") {
		switch {
		case isCarried(name):
			names = append(names, name)
		case skipped != nil && !belongsToPlatform(name):
			skipped(name)
		}
	}
	slices.Sort(names)
	return names, nil
}

func (o Object) xattrValue(name string) ([]byte, error) {
	for buf := make([]byte, 256); ; buf = make([]byte, 4*len(buf)) {
		n, err := o.getxattr(name, buf)
		if err == unix.ERANGE {
			continue
		}
		if err != nil {
			return nil, err
		}
		return buf[:n:n], nil
	}
}

// setXattrs sets the carried attributes of o to exactly want. It removes others, such as an ACL inherited from the
// directory.
func (o Object) setXattrs(want []Xattr) error {
	have, err := o.Xattrs(nil)
	if err != nil {
		return err
	}
	for _, x := range have {
		if !slices.ContainsFunc(want, func(w Xattr) bool { return w.Name == x.Name }) {
			if err := o.removexattr(x.Name); err != nil {
				return &XattrError{x.Name, err}
			}
		}
	}
	for _, x := range want {
		if slices.ContainsFunc(have, func(h Xattr) bool { return h.Name == x.Name && bytes.Equal(h.value, x.value) }) {
			continue
		}
		if err := o.setxattr(x.Name, x.value); err != nil {
			return &XattrError{x.Name, o.explainSetError(err)}
		}
	}
	return nil
}

// explainSetError distinguishes a full file system from an attribute that is too large for the file system. Both answer
// ENOSPC.
func (o Object) explainSetError(err error) error {
	if err != unix.ENOSPC && err != unix.E2BIG && err != unix.ERANGE {
		return err
	}
	var st unix.Statfs_t
	fd := o.fd
	if !o.isOpen() {
		fd = o.dirfd
	}
	if unix.Fstatfs(fd, &st) == nil && st.Bavail == 0 && err == unix.ENOSPC {
		return err
	}
	return fault.ErrXattrTooLarge
}

// OpenUsable opens a directory for reading and lets its owner read, write and search it. Only a process without
// CAP_DAC_OVERRIDE needs that. The right mode is set at the end.
func OpenUsable(parent int, name string) (int, error) {
	fd, err := Openat(parent, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err == unix.EACCES {
		if err := Named(parent, name).Chmod(0o700); err != nil {
			return -1, err
		}
		fd, err = Openat(parent, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	}
	if err != nil {
		return -1, err
	}
	if err := makeUsable(fd); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// makeUsable lets the owner of an open directory read, write and search it, if that is this process.
func makeUsable(fd int) error {
	st, err := Fstat(fd)
	if err == nil && st.Mode&0o700 != 0o700 && int(st.Uid) == os.Geteuid() {
		err = IgnoringEINTR(func() error { return unix.Fchmod(fd, st.Mode&^unix.S_IFMT|0o700) })
	}
	return err
}

// Xattr is an extended attribute.
type Xattr struct {
	Name  string
	value []byte
}

// isCarried reports whether an attribute belongs to the data, see the package comment.
func isCarried(name string) bool {
	switch name {
	case "security.selinux",
		"trusted.SGI_ACL_FILE", "trusted.SGI_ACL_DEFAULT": // XFS stores a POSIX ACL in these, and lists them
		return false
	case "system.posix_acl_access", "system.posix_acl_default":
		return true
	}
	return strings.HasPrefix(name, "user.") || strings.HasPrefix(name, "trusted.") || strings.HasPrefix(name, "security.")
}

// belongsToPlatform reports whether the node or its file system sets this attribute on the copy.
func belongsToPlatform(name string) bool {
	return name == "security.selinux" || strings.HasPrefix(name, "trusted.SGI_ACL_")
}

func SameXattrs(a, b []Xattr) bool {
	return slices.EqualFunc(a, b, func(x, y Xattr) bool { return x.Name == y.Name && bytes.Equal(x.value, y.value) })
}

// XattrError adds the attribute's name to an error.
type XattrError struct {
	Name string
	Err  error
}

func (e *XattrError) Error() string { return "attribute " + fault.Quote(e.Name) + ": " + e.Err.Error() }
func (e *XattrError) Unwrap() error { return e.Err }
