//go:build linux

package mover

import (
	"errors"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
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

// root is an open root directory. Everything below it is reached from its descriptor.
type root struct {
	fd        int
	dev       uint64
	mount     uint64 // see fileStat
	self      meta
	side      side
	noOpenat2 atomic.Bool
	noFlags   atomic.Bool // the file system has no inode flags
	kind      int64       // of the file system, as in statfs; 0 if it is unknown

	settings   settings // of the root directory
	noSettings bool     // the file system has no settings

	unknown *unknownIDs
}

// isTrusted reports whether the file system is one of trustedFileSystems.
func (r *root) isTrusted() bool { return trustedFileSystems[r.kind] != "" }

func openRoot(path string, s side) (*root, error) {
	fd, err := ignoringEINTRValue(func() (int, error) {
		return unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, newFault(s, "opening the directory", path, err)
	}
	st, err := statEntry(fd, "")
	if err != nil {
		unix.Close(fd)
		return nil, newFault(s, "reading the directory", path, err)
	}
	r := &root{fd: fd, dev: st.Dev, mount: st.mount, self: metaOf(&st.Stat_t), side: s}
	var fs unix.Statfs_t
	if err := ignoringEINTR(func() error { return unix.Fstatfs(fd, &fs) }); err == nil {
		r.kind = int64(fs.Type)
	}
	r.settings, err = readSettings(fd)
	r.noSettings = err != nil
	if r.unknown, err = readUnknownIDs(r.mount); err != nil {
		unix.Close(fd)
		return nil, newFault(s, "reading the id mappings of the directory", path, err)
	}
	return r, nil
}

func (r *root) close() { unix.Close(r.fd) }

// open opens a directory below the root for reading. It follows no symbolic link anywhere on the path.
func (r *root) open(d *dir) (int, error) {
	if d.parent == nil {
		return openat(r.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	}
	return r.openPath(d.path())
}

// openPath opens a path in pieces that are shorter than PATH_MAX.
func (r *root) openPath(path string) (int, error) {
	at, flags := r.fd, unix.O_PATH
	for {
		piece, rest := splitPath(path, r.pieceLimit())
		if rest == "" {
			flags = unix.O_RDONLY
		}
		next, err := r.step(at, piece, flags|unix.O_DIRECTORY)
		if errors.Is(err, errNoOpenat2) {
			continue // retry the piece by single names
		}
		if at != r.fd {
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
func (r *root) pieceLimit() int {
	if r.noOpenat2.Load() {
		return 0
	}
	return unix.PathMax - 1
}

// step opens a path of a few names below at, or a single name.
func (r *root) step(at int, piece string, flags int) (int, error) {
	if r.noOpenat2.Load() {
		return openat(at, piece, flags, 0)
	}
	how := unix.OpenHow{
		Flags:   uint64(flags | unix.O_NOFOLLOW | unix.O_CLOEXEC),
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	}
	fd, err := ignoringEINTRValue(func() (int, error) { return unix.Openat2(at, piece, &how) })
	if err == unix.ENOSYS || err == unix.EPERM { // an old kernel, or a seccomp filter without this call
		r.noOpenat2.Store(true)
		return -1, errNoOpenat2
	}
	return fd, err
}

// splitPath cuts path after as many whole names as fit into limit bytes, but at least one.
func splitPath(path string, limit int) (piece, rest string) {
	if len(path) <= limit {
		return path, ""
	}
	if i := strings.LastIndexByte(path[:limit+1], '/'); i > 0 {
		return path[:i], path[i+1:]
	}
	piece, rest, _ = strings.Cut(path, "/")
	return piece, rest
}

// isElsewhere reports whether another file system is mounted at the entry. A btrfs subvolume has another device number
// but the same mount. On kernels that do not report mounts, another device number counts as another mount.
func (r *root) isElsewhere(s *fileStat) bool {
	if r.mount != 0 && s.mount != 0 {
		return s.mount != r.mount
	}
	return s.Dev != r.dev
}

// checkSeparate fails if one root is the other or is inside it. Deleting names that the source does not have would then
// delete the source.
func checkSeparate(a, b *root) error {
	for _, pair := range [][2]*root{{a, b}, {b, a}} {
		inside, err := isInside(pair[0], pair[1])
		if err != nil {
			return err
		}
		if inside {
			return errNotSeparate
		}
	}
	return nil
}

var errNotSeparate = errors.New("source and target are the same directory, or one is inside the other")

// isInside walks up from a to the top of the file tree and reports whether it meets b.
func isInside(a, b *root) (bool, error) {
	at := a.fd
	dev, ino := a.dev, a.self.ino
	for {
		if dev == b.dev && ino == b.self.ino {
			return true, nil
		}
		up, err := openat(at, "..", unix.O_PATH|unix.O_DIRECTORY, 0)
		if at != a.fd {
			unix.Close(at)
		}
		if err != nil {
			return false, newFault(a.side, "opening a parent of the directory", "", err)
		}
		st, err := fstat(up)
		if err != nil || (st.Dev == dev && st.Ino == ino) {
			unix.Close(up)
			return false, err
		}
		at, dev, ino = up, st.Dev, st.Ino
	}
}
