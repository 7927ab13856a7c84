//go:build linux

package mover

import "golang.org/x/sys/unix"

// lostFound is created by mkfs in the root of some file systems. fsck puts files there that have lost their names.
const lostFound = "lost+found"

// lostFoundState classifies the lost+found in a root.
type lostFoundState int

const (
	lostFoundOrdinary   lostFoundState = iota // it belongs to the data, or does not exist
	lostFoundUnused                           // created by mkfs, and empty: it belongs to the file system
	lostFoundUnreadable                       // created by mkfs and apparently empty, but this process may not read it
)

// lostFoundIn classifies the lost+found of an open root directory.
func lostFoundIn(root int) (lostFoundState, error) {
	st, err := statEntry(root, lostFound)
	if err == unix.ENOENT {
		return lostFoundOrdinary, nil
	}
	if err != nil {
		return lostFoundOrdinary, err
	}
	if !isMadeByMkfs(&st) {
		return lostFoundOrdinary, nil
	}
	fd, err := openat(root, lostFound, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err == unix.EACCES || err == unix.EPERM {
		if looksUsed(root, &st) {
			return lostFoundOrdinary, nil
		}
		return lostFoundUnreadable, nil
	}
	if err != nil {
		return lostFoundOrdinary, err
	}
	defer unix.Close(fd)
	names, err := readdir(fd)
	if err != nil || names.len() > 0 {
		return lostFoundOrdinary, err
	}
	return lostFoundUnused, nil
}

// firstInode is the inode number of lost+found on every ext file system, because mkfs creates it first.
const firstInode = 11

// isMadeByMkfs reports whether mkfs created a lost+found. On ext the inode number proves it, even after a chown. On
// other file systems owner and mode decide. The platform may have added a group with all rights.
func isMadeByMkfs(st *fileStat) bool {
	return st.Mode&unix.S_IFMT == unix.S_IFDIR && (st.Ino == firstInode || st.Uid == 0 && st.Mode&0o007 == 0)
}

// looksUsed reports whether the stat of a directory that cannot be read shows that something was put into it.
func looksUsed(root int, st *fileStat) bool {
	if st.Nlink > 2 {
		return true
	}
	var x unix.Statx_t
	err := ignoringEINTR(func() error { return unix.Statx(root, lostFound, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BTIME, &x) })
	born := unix.Timespec{Sec: x.Btime.Sec, Nsec: int64(x.Btime.Nsec)}
	return err == nil && x.Mask&unix.STATX_BTIME != 0 && born != st.Mtim
}

// skipLostFound reports whether the scan leaves a name out of the source's root.
func (s *scanner) skipLostFound(d *dir, fd int, names nameList, i int) (bool, error) {
	if d.parent != nil || !d.isLostFound(names.at(i).name) {
		return false, nil
	}
	state, err := lostFoundIn(fd)
	if err != nil {
		return false, newFault(s.root.side, "looking at", lostFound, err)
	}
	if state == lostFoundUnreadable {
		s.problems.warn("this process may not read lost+found of the %s. If fsck has put files there, they are not copied. "+
			"Only a root mover can check that", s.root.side)
	}
	return state != lostFoundOrdinary, nil
}

// isLostFound reports whether a name in d may belong to the file system.
func (d *dir) isLostFound(name string) bool { return d.parent == nil && name == lostFound }
