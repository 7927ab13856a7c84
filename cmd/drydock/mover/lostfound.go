//go:build linux

package mover

import (
	"context"

	"golang.org/x/sys/unix"
)

// lostFound is made by mkfs in the root of some file systems. fsck puts files there that have lost their names.
const lostFound = "lost+found"

// lostFoundState tells the kinds of a lost+found in a root apart.
type lostFoundState int

const (
	lostFoundOrdinary   lostFoundState = iota // it belongs to the data, or there is none
	lostFoundUnused                           // as mkfs made it, and empty: it belongs to the file system
	lostFoundUnreadable                       // as mkfs made it, and nothing shows that it holds anything, but this process may not look
)

// lostFoundIn judges the lost+found of an open root directory.
func lostFoundIn(root int) (lostFoundState, error) {
	st, err := sight(root, lostFound)
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
		if isUsed(root, &st) {
			return lostFoundOrdinary, nil
		}
		return lostFoundUnreadable, nil
	}
	if err != nil {
		return lostFoundOrdinary, err
	}
	defer unix.Close(fd)
	names, err := readdir(fd)
	if err != nil || len(names) > 0 {
		return lostFoundOrdinary, err
	}
	return lostFoundUnused, nil
}

// firstInode is the number of lost+found on every ext file system: mkfs makes it first.
const firstInode = 11

// isMadeByMkfs reports whether mkfs has made a lost+found. On ext the inode number tells, also after a chown. Elsewhere
// owner and mode do. The platform may have added a group with all rights.
func isMadeByMkfs(st *sighting) bool {
	return st.Mode&unix.S_IFMT == unix.S_IFDIR && (st.Ino == firstInode || st.Uid == 0 && st.Mode&0o007 == 0)
}

// isUsed reports whether a directory that cannot be read shows from outside that something was put into it.
func isUsed(root int, st *sighting) bool {
	if st.Nlink > 2 {
		return true
	}
	var x unix.Statx_t
	err := againErr(func() error { return unix.Statx(root, lostFound, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BTIME, &x) })
	born := unix.Timespec{Sec: x.Btime.Sec, Nsec: int64(x.Btime.Nsec)}
	return err == nil && x.Mask&unix.STATX_BTIME != 0 && born != st.Mtim
}

// skipLostFound reports whether the scan leaves the name out of the source's root.
func (s *scanner) skipLostFound(d *dir, fd int, name string) (bool, error) {
	if !d.isLostFound(name) {
		return false, nil
	}
	state, err := lostFoundIn(fd)
	if err != nil {
		return false, &fault{s.root.side, "looking at", name, err}
	}
	if state == lostFoundUnreadable {
		s.problems.warn("this process may not read lost+found of the %s: if fsck has put files there, they are not copied; "+
			"only a root mover can tell", s.root.side)
	}
	return state != lostFoundOrdinary, nil
}

// keepLostFound reports whether the target's lost+found stays although the source has none to copy. One of mkfs's with
// something in it, which an earlier pass has copied, is emptied.
func (c *copier) keepLostFound(ctx context.Context, root int, d *dir, name string) (bool, error) {
	if !d.isLostFound(name) || d.find(name) != nil {
		return false, nil
	}
	state, err := lostFoundIn(root)
	if err != nil || state != lostFoundOrdinary {
		return true, err
	}
	st, err := sight(root, lostFound)
	if err != nil || !isMadeByMkfs(&st) {
		return false, err
	}
	r := remover{copier: c, path: lostFound}
	fd, err := openUsable(root, lostFound)
	if err != nil {
		return true, r.fault("opening for deletion", err)
	}
	defer unix.Close(fd)
	if err := r.contents(ctx, fd, 1); err != nil {
		return true, err
	}
	return true, r.removeHoisted(ctx)
}
