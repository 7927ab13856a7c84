//go:build linux

package mover

import (
	"os"
	"strconv"

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
