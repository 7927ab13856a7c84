//go:build linux

package mover

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

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
		return nil, &fault{side: s, op: "opening the directory", path: path, err: err}
	}
	st, err := statEntry(fd, "")
	if err != nil {
		unix.Close(fd)
		return nil, &fault{side: s, op: "reading the directory", path: path, err: err}
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
		return nil, &fault{side: s, op: "reading the id mappings of the directory", path: path, err: err}
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
			return false, &fault{side: a.side, op: "opening a parent of the directory", err: err}
		}
		st, err := fstat(up)
		if err != nil || (st.Dev == dev && st.Ino == ino) {
			unix.Close(up)
			return false, err
		}
		at, dev, ino = up, st.Dev, st.Ino
	}
}

// A process without root's rights cannot always set the attributes of the target's root directory, which the platform created.
// Owner, mode and ACL must be equal nevertheless. Only the group and the rights that the platform sets for a pod's
// fsGroup may differ.

// fsGroupBits are the rights that the platform gives to the group fsGroup.
const fsGroupBits = unix.S_ISGID | 0o770

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

// rootDifferences lists the differences between the root directories. It ignores differences that the platform causes.
// Only a directory's owner can set its time.
func rootDifferences(src, dst snapshot, by identity) []string {
	if by.isIn(dst.meta.gid) {
		dst.meta.gid = src.meta.gid
		dst.meta.mode = dst.meta.mode&^fsGroupBits | src.meta.mode&fsGroupBits
	}
	if dst.meta.uid != by.uid {
		dst.meta.mtimeSec, dst.meta.mtimeNsec = src.meta.mtimeSec, src.meta.mtimeNsec
	}
	return differences(&src, &dst, nil, false)
}

// attainableRoot returns the target's root as this process can make it.
func attainableRoot(src, dst snapshot, by identity) snapshot {
	var attrs []xattr // sorted by name, like the source's
	for _, x := range src.attrs {
		have := slices.ContainsFunc(dst.attrs, func(y xattr) bool { return sameXattrs([]xattr{x}, []xattr{y}) })
		if have || dst.meta.uid == by.uid || strings.HasPrefix(x.name, "user.") {
			attrs = append(attrs, x)
		}
	}
	for _, x := range dst.attrs {
		if dst.meta.uid != by.uid && !slices.ContainsFunc(src.attrs, func(y xattr) bool { return x.name == y.name }) {
			attrs = append(attrs, x) // an ACL that only the directory's owner can remove
		}
	}
	dst.attrs = attrs
	dst.meta.mtimeSec, dst.meta.mtimeNsec = src.meta.mtimeSec, src.meta.mtimeNsec
	if dst.meta.uid != by.uid {
		return dst
	}
	dst.meta.mode = src.meta.mode
	if by.isIn(src.meta.gid) {
		dst.meta.gid = src.meta.gid
	}
	return dst
}

// checkRoot fails before anything is copied if the target's root cannot become faithful.
func (c *copier) checkRoot() error {
	by, err := self()
	if err != nil || by.isRoot() {
		return err
	}
	both, err := c.readRoots()
	if err != nil {
		return err
	}
	return notKeptError(rootDifferences(both[source], attainableRoot(both[source], both[target], by), by))
}

// finishForeignRoot sets the attributes that this process may set. It fails if the root is not faithful afterwards.
func (c *copier) finishForeignRoot(fd int, attrs []xattr) error {
	want := &c.tree.top.self.meta
	for _, set := range []func() (string, error){
		func() (string, error) { return setOwner(opened(fd), want) },
		func() (string, error) { return setAttributes(opened(fd), want, attrs) },
	} {
		op, err := set()
		if err == nil {
			continue
		}
		if f := (&fault{target, op, "", err}); kindOf(f) != kindDenied {
			return f
		}
	}
	return c.verifyRoot()
}

// verifyRoot compares the attributes of the root directories.
func (c *copier) verifyRoot() error {
	both, err := c.readRoots()
	if err != nil {
		return err
	}
	by, err := self()
	if err != nil {
		return err
	}
	if by.isRoot() {
		return differenceError("", differences(&both[source], &both[target], nil, false))
	}
	return notKeptError(rootDifferences(both[source], both[target], by))
}

// readRoots reads the attributes of both roots. In a first pass the source's come from the scan, because its time
// changes while it is in use.
func (c *copier) readRoots() (both [2]snapshot, err error) {
	for side, r := range []*root{c.src, c.dst} {
		st, err := fstat(r.fd)
		if err != nil {
			return both, &fault{r.side, "looking at", "", err}
		}
		both[side].meta = metaOf(&st)
		if both[side].attrs, err = opened(r.fd).xattrs(nil); err != nil {
			return both, &fault{r.side, "reading extended attributes of", "", err}
		}
	}
	if c.pass == PassFirst {
		both[source].meta = c.tree.top.self.meta
	}
	return both, nil
}

// notKeptError returns an error that lists the differences, or nil if there are none.
func notKeptError(differences []string) error {
	if len(differences) == 0 {
		return nil
	}
	return &fault{target, "keeping the attributes of", "", fmt.Errorf("%w: %s", errNotKept, strings.Join(differences, ", "))}
}
