//go:build linux

package mover

import "golang.org/x/sys/unix"

// sighting is what statx says of an entry.
type sighting struct {
	unix.Stat_t
	mount      uint64 // id of the mount that the entry is on; 0 where the kernel (before 5.8) does not say
	attributes uint64 // STATX_ATTR_ bits that are set
}

// sightingMask costs no more than stat: a network's file system asks its server for nothing else.
const sightingMask = unix.STATX_BASIC_STATS | unix.STATX_MNT_ID

// sight looks at a name in a directory, or at the directory itself if the name is empty. It follows no link and mounts
// nothing.
func sight(dirfd int, name string) (sighting, error) {
	flags := unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT
	if name == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	var x unix.Statx_t
	if err := againErr(func() error { return unix.Statx(dirfd, name, flags, sightingMask, &x) }); err != nil {
		return sighting{}, err
	}
	s := sighting{
		Stat_t: unix.Stat_t{
			Dev: unix.Mkdev(x.Dev_major, x.Dev_minor), Ino: x.Ino, Mode: uint32(x.Mode), Uid: x.Uid, Gid: x.Gid,
			Rdev: unix.Mkdev(x.Rdev_major, x.Rdev_minor), Size: int64(x.Size), Blocks: int64(x.Blocks),
			Mtim: unix.Timespec{Sec: x.Mtime.Sec, Nsec: int64(x.Mtime.Nsec)},
			Ctim: unix.Timespec{Sec: x.Ctime.Sec, Nsec: int64(x.Ctime.Nsec)},
		},
		attributes: x.Attributes & x.Attributes_mask,
	}
	setLinks(&s.Stat_t, x.Nlink)
	if x.Mask&unix.STATX_MNT_ID != 0 {
		s.mount = x.Mnt_id
	}
	return s, nil
}

// setLinks hides that the width of the field depends on the architecture.
func setLinks(st *unix.Stat_t, n uint32) { setNumber(&st.Nlink, n) }

func setNumber[T uint32 | uint64](field *T, n uint32) { *field = T(n) }

// isElsewhere reports whether something else is mounted at the entry. A btrfs subvolume has another device number, but
// is on the same mount. Where the kernel does not tell mounts apart, another device number counts as another mount.
func (r *root) isElsewhere(s *sighting) bool {
	if r.mount != 0 && s.mount != 0 {
		return s.mount != r.mount
	}
	return s.Dev != r.dev
}
