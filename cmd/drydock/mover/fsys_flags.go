//go:build linux

package mover

import (
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

// flagNames returns the letters that chattr uses.
func flagNames(flags uint32) (names string) {
	for _, f := range inodeFlags {
		if flags&f.bit != 0 {
			names += f.name
		}
	}
	return names
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
