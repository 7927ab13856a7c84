//go:build linux

package mover

import (
	"context"
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// inodeFlags are the inode flags that chattr sets. Flags that describe how a file system stores its own data are not
// among them. P (project inheritance) is not either: like the project ids it belongs to the quota of a volume, and the
// target's quota is the platform's. The copy neither sets nor removes it.
var inodeFlags = []struct {
	bit    uint32
	name   string
	needed bool // without it the copy is not faithful
}{
	{0x40000000, "F", true},
	{0x800000, "C", false}, // no copy on write
	{0x4, "c", false},      // compressed
	{0x400, "m", false},    // not compressed
	{0x8, "S", false},      // written at once
	{0x10000, "D", false},  // directory written at once
	{0x40, "d", false},     // not dumped
	{0x80, "A", false},     // no access times
	{0x4000, "j", false},   // data journalled
	{0x20000, "T", false},  // top of a hierarchy
	{0x2000000, "x", false},
}

// carriedFlags are the bits of all inodeFlags.
var carriedFlags = func() (all uint32) {
	for _, f := range inodeFlags {
		all |= f.bit
	}
	return all
}()

// uncopyableAttributes are statx attributes that a copy cannot have. The next pass could not replace an immutable file.
// Encryption and verity depend on keys and signatures.
var uncopyableAttributes = []struct {
	bit uint64
	err error
}{
	{unix.STATX_ATTR_IMMUTABLE, errors.New("it is immutable; remove the flag with chattr -i, copy, then set it again")},
	{unix.STATX_ATTR_APPEND, errors.New("it is append-only; remove the flag with chattr -a, copy, then set it again")},
	{unix.STATX_ATTR_ENCRYPTED, errors.New("it is encrypted by its file system (fscrypt), and its copy would not be")},
	{unix.STATX_ATTR_VERITY, errors.New("it has fs-verity enabled, and its copy would not have it")},
}

// uncopyableReason returns why an entry cannot be copied, or nil.
func (s *fileStat) uncopyableReason() error {
	for _, f := range uncopyableAttributes {
		if s.attributes&f.bit != 0 {
			return &uncopyableError{f.err}
		}
	}
	return nil
}

type uncopyableError struct{ error }

func (e *uncopyableError) Is(other error) bool { return other == errNotKept }

// flagsOf returns the carried flags of an open file or directory. File systems without flags are asked only once,
// because FUSE has to ask a process each time.
func (r *root) flagsOf(fd int) uint32 {
	if r.noFlags.Load() {
		return 0
	}
	all, err := rawFlags(fd)
	if err != nil {
		r.noFlags.Store(true)
		return 0
	}
	return all & carriedFlags
}

func rawFlags(fd int) (uint32, error) {
	return ignoringEINTRValue(func() (uint32, error) { return unix.IoctlGetUint32(fd, unix.FS_IOC_GETFLAGS) })
}

// setDirFlags gives an open directory of the target its flags. The root keeps those that the platform gave it. So d.flags
// becomes what new entries of the directory inherit.
func (c *copier) setDirFlags(fd int, d *dir) error {
	if d.parent == nil {
		have := c.dst.flagsOf(fd)
		for _, f := range inodeFlags {
			if f.needed && have&f.bit != 0 && d.flags&f.bit == 0 {
				return &fault{target, "using the directory with the inode flag " + f.name, "", errNotKept}
			}
		}
		if more := have &^ d.flags; more != 0 {
			c.warn("the target's root directory keeps the inode flag %s (chattr), which the source's root directory does not have",
				flagNames(more))
		}
		d.flags |= have
		c.noteRootLosses()
	}
	return c.setFlags(fd, d.path(), d.flags)
}

// setFlags gives an open entry of the target the flags of the source's entry. A file has to be empty, because some flags
// have no effect otherwise. If a needed flag cannot be set, the copy of the entry fails. Any other flag becomes a
// warning.
func (c *copier) setFlags(fd int, path string, want uint32) error {
	if want == 0 && c.dst.noFlags.Load() {
		return nil
	}
	have, err := rawFlags(fd)
	if err != nil {
		c.dst.noFlags.Store(true)
	}
	for _, remove := range []bool{true, false} { // an inherited flag may exclude another one
		for _, f := range inodeFlags {
			if (have^want)&f.bit == 0 || (have&f.bit != 0) != remove {
				continue
			}
			next := have ^ f.bit
			if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.FS_IOC_SETFLAGS, uintptr(unsafe.Pointer(&next))); errno == 0 {
				if now, err := rawFlags(fd); err == nil && (now^want)&f.bit == 0 {
					have = now
					continue
				}
			}
			if f.needed {
				return &fault{target, "setting the inode flag " + f.name + " on", path, errNotKept}
			}
			outcome := notCopied
			if remove {
				outcome = notRemoved
			}
			c.problems.omit("the inode flag "+f.name+" (chattr)", outcome, path)
			c.unsetFlags.Or(f.bit)
		}
	}
	return nil
}

// sameFlags compares the flags of a file whose other attributes are equal.
func (c *copier) sameFlags(ctx context.Context, at pair, e *entry) (bool, error) {
	var flags [2]uint32
	dirs := [2]int{source: at.src, target: at.dst}
	for k, r := range []*root{c.src, c.dst} {
		fd, err := openat(dirs[k], e.name, unix.O_RDONLY, 0)
		if err != nil && r.side == target {
			return false, nil // a file that cannot be read is replaced
		}
		if err != nil {
			return false, at.fault(r.side, "opening", e, err)
		}
		flags[k] = r.flagsOf(fd)
		unix.Close(fd)
	}
	return !c.flagsDiffer(flags[source], flags[target]), context.Cause(ctx)
}

// flagsDiffer reports whether a file lacks flags of the source that the target could store, or has others. Without this exception, a file
// with such a flag would be copied completely in each pass.
func (c *copier) flagsDiffer(want, have uint32) bool {
	return want != have && (want^have)&^c.missingFlags() != 0
}

// ignoredFlags returns the flags that the verification does not compare, because the copy found that the target does not take
// them. It writes nothing.
func (c *copier) ignoredFlags() uint32 {
	if c.dst.noFlags.Load() {
		return carriedFlags
	}
	return c.lacksFlags | c.unsetFlags.Load()
}

// flagNames returns the letters that chattr uses.
func flagNames(flags uint32) (names string) {
	for _, f := range inodeFlags {
		if flags&f.bit != 0 {
			names += f.name
		}
	}
	return names
}

// missingFlags returns the flags that files of the target cannot have. It tries them once, with an empty file.
func (c *copier) missingFlags() uint32 {
	c.tryFlags.Do(func() {
		if c.dst.noFlags.Load() {
			c.lacksFlags = carriedFlags
			return
		}
		if c.checkOwned() != nil {
			return // every difference counts
		}
		fd := -1
		name, err := c.makeTemp(c.tree.top, func(name string) (err error) {
			fd, err = openat(c.dst.fd, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0)
			return err
		})
		if err != nil {
			return
		}
		defer unix.Close(fd)
		defer c.discard(c.dst.fd, name)
		base, err := rawFlags(fd)
		if err != nil {
			return
		}
		base &^= carriedFlags // those of the directory, which the file has inherited
		for _, f := range inodeFlags {
			if !f.needed && !takesFlag(fd, base, f.bit) {
				c.lacksFlags |= f.bit
			}
		}
	})
	return c.lacksFlags
}

// takesFlag reports whether an open empty file can have the flag beside its base flags. The flags of earlier trials are removed, because
// some exclude each other.
func takesFlag(fd int, base, bit uint32) bool {
	set := func(flags uint32) bool {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.FS_IOC_SETFLAGS, uintptr(unsafe.Pointer(&flags)))
		now, err := rawFlags(fd)
		return errno == 0 && err == nil && now&bit == flags&bit
	}
	set(base)
	return set(base | bit)
}
