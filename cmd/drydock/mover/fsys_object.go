//go:build linux

package mover

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// object is an entry whose attributes are read or set: an open file or directory (fd >= 0), or a name in an open
// directory. Such a name is never followed as a link.
type object struct {
	fd    int
	dirfd int
	name  string
}

func opened(fd int) object                { return object{fd: fd} }
func named(dirfd int, name string) object { return object{fd: -1, dirfd: dirfd, name: name} }
func procPath(fd int) string              { return "/proc/self/fd/" + strconv.Itoa(fd) }
func (o object) isOpen() bool             { return o.fd >= 0 }
func (o object) procName() string         { return procPath(o.dirfd) + "/" + o.name }

func (o object) stat() (unix.Stat_t, error) {
	if o.isOpen() {
		return fstat(o.fd)
	}
	return lstatat(o.dirfd, o.name)
}

// chown does not change an id of -1. The kernel clears set-id bits and file capabilities.
func (o object) chown(uid, gid int) error {
	return ignoringEINTR(func() error {
		if o.isOpen() {
			return unix.Fchown(o.fd, uid, gid)
		}
		return unix.Fchownat(o.dirfd, o.name, uid, gid, unix.AT_SYMLINK_NOFOLLOW)
	})
}

// chmod sets the mode of anything except a symbolic link.
func (o object) chmod(mode uint32) error {
	if o.isOpen() {
		return ignoringEINTR(func() error { return unix.Fchmod(o.fd, mode) })
	}
	fd, err := openat(o.dirfd, o.name, unix.O_PATH, 0) // on older kernels fchmodat always follows links
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	st, err := fstat(fd)
	if err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		err = unix.ELOOP
	}
	if err != nil {
		return err
	}
	return ignoringEINTR(func() error { return unix.Chmod(procPath(fd), mode) })
}

func (o object) setTimes(ts []unix.Timespec) error {
	return ignoringEINTR(func() error {
		if o.isOpen() {
			return futimens(o.fd, ts)
		}
		return unix.UtimesNanoAt(o.dirfd, o.name, ts, unix.AT_SYMLINK_NOFOLLOW)
	})
}

func (o object) listxattr(buf []byte) (int, error) {
	return ignoringEINTRValue(func() (int, error) {
		if o.isOpen() {
			return unix.Flistxattr(o.fd, buf)
		}
		return unix.Llistxattr(o.procName(), buf)
	})
}

func (o object) getxattr(name string, buf []byte) (int, error) {
	return ignoringEINTRValue(func() (int, error) {
		if o.isOpen() {
			return unix.Fgetxattr(o.fd, name, buf)
		}
		return unix.Lgetxattr(o.procName(), name, buf)
	})
}

func (o object) setxattr(name string, value []byte) error {
	return ignoringEINTR(func() error {
		if o.isOpen() {
			return unix.Fsetxattr(o.fd, name, value, 0)
		}
		return unix.Lsetxattr(o.procName(), name, value, 0)
	})
}

func (o object) removexattr(name string) error {
	return ignoringEINTR(func() error {
		if o.isOpen() {
			return unix.Fremovexattr(o.fd, name)
		}
		return unix.Lremovexattr(o.procName(), name)
	})
}

// xattrs returns the attributes that are carried, sorted by name. A file system without attributes has none. It calls
// skipped, if not nil, for each other attribute.
func (o object) xattrs(skipped func(name string)) ([]xattr, error) {
	names, err := o.xattrNames(skipped)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	list := make([]xattr, 0, len(names))
	for _, name := range names {
		value, err := o.xattrValue(name)
		if err != nil {
			return nil, &xattrError{name, err}
		}
		if err := checkACL(name, value); err != nil {
			return nil, &xattrError{name, err}
		}
		list = append(list, xattr{name, value})
	}
	return list, nil
}

func (o object) xattrNames(skipped func(name string)) ([]string, error) {
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

func (o object) xattrValue(name string) ([]byte, error) {
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
func (o object) setXattrs(want []xattr) error {
	have, err := o.xattrs(nil)
	if err != nil {
		return err
	}
	for _, x := range have {
		if !slices.ContainsFunc(want, func(w xattr) bool { return w.name == x.name }) {
			if err := o.removexattr(x.name); err != nil {
				return &xattrError{x.name, err}
			}
		}
	}
	for _, x := range want {
		if slices.ContainsFunc(have, func(h xattr) bool { return h.name == x.name && bytes.Equal(h.value, x.value) }) {
			continue
		}
		if err := o.setxattr(x.name, x.value); err != nil {
			return &xattrError{x.name, o.explainSetError(err)}
		}
	}
	return nil
}

// explainSetError distinguishes a full file system from an attribute that is too large for the file system. Both answer
// ENOSPC.
func (o object) explainSetError(err error) error {
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
	return errXattrTooLarge
}

// openUsable opens a directory for reading and lets its owner read, write and search it. Only a process without
// CAP_DAC_OVERRIDE needs that. The right mode is set at the end.
func openUsable(parent int, name string) (int, error) {
	fd, err := openat(parent, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err == unix.EACCES {
		if err := named(parent, name).chmod(0o700); err != nil {
			return -1, err
		}
		fd, err = openat(parent, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
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
	st, err := fstat(fd)
	if err == nil && st.Mode&0o700 != 0o700 && int(st.Uid) == os.Geteuid() {
		err = ignoringEINTR(func() error { return unix.Fchmod(fd, st.Mode&^unix.S_IFMT|0o700) })
	}
	return err
}

// xattr is an extended attribute.
type xattr struct {
	name  string
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

func sameXattrs(a, b []xattr) bool {
	return slices.EqualFunc(a, b, func(x, y xattr) bool { return x.name == y.name && bytes.Equal(x.value, y.value) })
}

// xattrError adds the attribute's name to an error.
type xattrError struct {
	name string
	err  error
}

func (e *xattrError) Error() string { return "attribute " + quote(e.name) + ": " + e.err.Error() }
func (e *xattrError) Unwrap() error { return e.err }
