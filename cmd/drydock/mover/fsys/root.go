//go:build linux

package fsys

import (
	"errors"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/fault"
)

// trustedFileSystems are the file systems with reliable change times and reliable holes. There, this kernel sets the time for every write.
// That includes writes through memory mappings, as soon as their pages were clean. On a network file system the time
// comes from another clock or comes late, and an overlay shows the times of another file system. tmpfs never writes
// pages back, so a mapping that was written to once is never stamped again. The exceptions exchange the blocks of two
// files. EXT4_IOC_MOVE_EXT stamps one of them; e4defrag, its user, deletes the other. XFS_IOC_SWAPEXT stamps none, and the owner
// of both files may call it; xfs_fsr, its user, exchanges files with equal contents.
//
// Elsewhere the search for holes may be wrong: versions of ZFS reported holes in files that were just written. There, the
// verification reads all bytes. The copy still believes the holes, and the verification finds the error.
var trustedFileSystems = map[int64]string{
	unix.EXT4_SUPER_MAGIC: "ext2, ext3 or ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs",
}

// Root is an open root directory. Everything below it is reached from its descriptor.
type Root struct {
	Fd        int
	Dev       uint64
	Mount     uint64 // see FileStat
	Self      Meta
	Other     Inode // of the other side's root, after CheckSeparate
	Side      fault.Side
	NoOpenat2 atomic.Bool
	NoFlags   atomic.Bool // the file system has no inode flags
	Kind      int64       // of the file system, as in statfs; 0 if it is unknown

	Settings   Settings // of the root directory
	NoSettings bool     // the file system has no settings

	Unknown *unknownIDs
}

// IsTrusted reports whether the file system is one of trustedFileSystems.
func (r *Root) IsTrusted() bool { return trustedFileSystems[r.Kind] != "" }

func OpenRoot(path string, s fault.Side) (*Root, error) {
	fd, err := IgnoringEINTRValue(func() (int, error) {
		return unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, fault.New(s, "opening the directory", path, err)
	}
	st, err := StatEntry(fd, "")
	if err != nil {
		unix.Close(fd)
		return nil, fault.New(s, "reading the directory", path, err)
	}
	r := &Root{Fd: fd, Dev: st.Dev, Mount: st.Mount, Self: MetaOf(&st.Stat_t), Side: s}
	var fs unix.Statfs_t
	if err := IgnoringEINTR(func() error { return unix.Fstatfs(fd, &fs) }); err == nil {
		r.Kind = int64(fs.Type)
	}
	r.Settings, err = ReadSettings(fd)
	r.NoSettings = err != nil
	if r.Unknown, err = readUnknownIDs(r.Mount); err != nil {
		unix.Close(fd)
		return nil, fault.New(s, "reading the id mappings of the directory", path, err)
	}
	return r, nil
}

// Statfs returns the state of the file system.
func (r *Root) Statfs() (st unix.Statfs_t, err error) {
	err = IgnoringEINTR(func() error { return unix.Fstatfs(r.Fd, &st) })
	return st, err
}

func (r *Root) Close() { unix.Close(r.Fd) }

// Open opens a directory at or below the root for reading. It follows no symbolic link anywhere on the path, and opens the path in pieces
// that are shorter than PATH_MAX.
func (r *Root) Open(path string) (int, error) {
	if path == "" {
		return Openat(r.Fd, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	}
	at, flags := r.Fd, unix.O_PATH
	for {
		piece, rest := SplitPath(path, r.pieceLimit())
		if rest == "" {
			flags = unix.O_RDONLY
		}
		next, err := r.step(at, piece, flags|unix.O_DIRECTORY)
		if errors.Is(err, errNoOpenat2) {
			continue // retry the piece by single names
		}
		if at != r.Fd {
			unix.Close(at)
		}
		if err != nil || rest == "" {
			return next, err
		}
		at, path = next, rest
	}
}

var errNoOpenat2 = errors.New("no openat2")

// pieceLimit returns how many bytes of a path one step can take. It is 0, for a single name, where openat2 is missing or
// filtered.
func (r *Root) pieceLimit() int {
	if r.NoOpenat2.Load() {
		return 0
	}
	return unix.PathMax - 1
}

// step opens a path of a few names below at, or a single name.
func (r *Root) step(at int, piece string, flags int) (int, error) {
	if r.NoOpenat2.Load() {
		return Openat(at, piece, flags, 0)
	}
	how := unix.OpenHow{
		Flags:   uint64(flags | unix.O_NOFOLLOW | unix.O_CLOEXEC),
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	}
	fd, err := IgnoringEINTRValue(func() (int, error) { return unix.Openat2(at, piece, &how) })
	if err == unix.ENOSYS || err == unix.EPERM { // an old kernel, or a seccomp filter without this call
		r.NoOpenat2.Store(true)
		return -1, errNoOpenat2
	}
	return fd, err
}

// SplitPath cuts path after as many whole names as fit into limit bytes, but at least one.
func SplitPath(path string, limit int) (piece, rest string) {
	if len(path) <= limit {
		return path, ""
	}
	if i := strings.LastIndexByte(path[:limit+1], '/'); i > 0 {
		return path[:i], path[i+1:]
	}
	piece, rest, _ = strings.Cut(path, "/")
	return piece, rest
}

// IsElsewhere reports whether another file system is mounted at the entry. A btrfs subvolume has another device number
// but the same mount. On kernels that do not report mounts, another device number counts as another mount.
func (r *Root) IsElsewhere(s *FileStat) bool {
	if r.Mount != 0 && s.Mount != 0 {
		return s.Mount != r.Mount
	}
	return s.Dev != r.Dev
}

// CheckEntered fails for an open directory of the target that does not belong to it: something is mounted there, or it is the root of the
// source.
func (r *Root) CheckEntered(fd int) error {
	st, err := StatEntry(fd, "")
	m := MetaOf(&st.Stat_t)
	switch {
	case err != nil:
		return err
	case m.Inode() == r.Other:
		return fault.ErrNotSeparate
	case st.Dev != r.Dev, r.IsElsewhere(&st):
		return fault.ErrMountHere
	}
	return nil
}

// CheckSeparate fails if one root is the other or is inside it. Deleting names that the source does not have would then
// delete the source. If both are mounts of one file system, no path leads from one to the other, and only a walk that comes to the other
// root shows it. So each side knows the other's root afterwards.
func CheckSeparate(a, b *Root) error {
	for _, pair := range [][2]*Root{{a, b}, {b, a}} {
		inside, err := isInside(pair[0], pair[1])
		if err != nil {
			return err
		}
		if inside {
			return fault.ErrNotSeparate
		}
	}
	a.Other, b.Other = b.Self.Inode(), a.Self.Inode()
	return nil
}

// isInside walks up from a to the top of the file tree and reports whether it meets b.
func isInside(a, b *Root) (bool, error) {
	at := a.Fd
	dev, ino := a.Dev, a.Self.Ino
	for {
		if dev == b.Dev && ino == b.Self.Ino {
			return true, nil
		}
		up, err := Openat(at, "..", unix.O_PATH|unix.O_DIRECTORY, 0)
		if at != a.Fd {
			unix.Close(at)
		}
		if err != nil {
			return false, fault.New(a.Side, "opening a parent of the directory", "", err)
		}
		st, err := Fstat(up)
		if err != nil || (st.Dev == dev && st.Ino == ino) {
			unix.Close(up)
			return false, err
		}
		at, dev, ino = up, st.Dev, st.Ino
	}
}
