//go:build linux

package fsys

import (
	"errors"
	"math"
	"unsafe"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/fault"
)

// InodeFlags are the inode flags that chattr sets. Flags that describe how a file system stores its own data are not
// among them. P (project inheritance) is not either: like the project ids it belongs to the quota of a volume, and the
// target's quota is the platform's. The copy neither sets nor removes it.
var InodeFlags = []struct {
	Bit    uint32
	Name   string
	Needed bool // without it the copy is not faithful
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

// CarriedFlags are the bits of all InodeFlags.
var CarriedFlags = func() (all uint32) {
	for _, f := range InodeFlags {
		all |= f.Bit
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

// UncopyableReason returns why an entry cannot be copied, or nil.
func (s *FileStat) UncopyableReason() error {
	for _, f := range uncopyableAttributes {
		if s.attributes&f.bit != 0 {
			return &uncopyableError{f.err}
		}
	}
	return nil
}

type uncopyableError struct{ error }

func (e *uncopyableError) Is(other error) bool { return other == fault.ErrNotKept }

// FlagsOf returns the carried flags of an open file or directory. File systems without flags are asked only once,
// because FUSE has to ask a process each time.
func (r *Root) FlagsOf(fd int) uint32 {
	if r.NoFlags.Load() {
		return 0
	}
	all, err := RawFlags(fd)
	if err != nil {
		r.NoFlags.Store(true)
		return 0
	}
	return all & CarriedFlags
}

func RawFlags(fd int) (uint32, error) {
	return IgnoringEINTRValue(func() (uint32, error) { return unix.IoctlGetUint32(fd, unix.FS_IOC_GETFLAGS) })
}

// FlagNames returns the letters that chattr uses.
func FlagNames(flags uint32) (names string) {
	for _, f := range InodeFlags {
		if flags&f.Bit != 0 {
			names += f.Name
		}
	}
	return names
}

// TakesFlag reports whether an open empty file can have the flag beside its base flags. The flags of earlier trials are removed, because
// some exclude each other.
func TakesFlag(fd int, base, bit uint32) bool {
	set := func(flags uint32) bool {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.FS_IOC_SETFLAGS, uintptr(unsafe.Pointer(&flags)))
		now, err := RawFlags(fd)
		return errno == 0 && err == nil && now&bit == flags&bit
	}
	set(base)
	return set(base | bit)
}

// Settings is the struct fsxattr of FS_IOC_FSGETXATTR, which needs no privilege.
type Settings struct {
	Flags, extentSize, extents, Project, cowExtentSize uint32
	_                                                  [8]byte
}

const (
	getSettings       = 0x801c581f // FS_IOC_FSGETXATTR
	FlagPreallocated  = 0x2        // FS_XFLAG_PREALLOC
	GetExtents        = 0xc020660b // FS_IOC_FIEMAP
	ExtentIsLast      = 0x1        // FIEMAP_EXTENT_LAST
	extentIsUnwritten = 0x800      // FIEMAP_EXTENT_UNWRITTEN
)

func ReadSettings(fd int) (s Settings, err error) {
	return s, Ioctl(fd, getSettings, unsafe.Pointer(&s))
}

func Ioctl(fd int, request uintptr, argument unsafe.Pointer) error {
	return IgnoringEINTR(func() error {
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(argument)); errno != 0 {
			return errno
		}
		return nil
	})
}

// Hints returns the extent size hints.
func (s *Settings) Hints() [2]uint32 { return [2]uint32{s.extentSize, s.cowExtentSize} }

// Extents is the struct fiemap with room for some extents.
type Extents struct {
	Start, Length       uint64
	_, Mapped, Count, _ uint32
	List                [64]extent
}

type extent struct {
	From, _, Length uint64
	_               [2]uint64
	Flags           uint32
	_               [3]uint32
}

// EmptyBytes returns how much of an extent holds no data. A range that is being written back is unwritten, too, but is not in a hole.
func (x *extent) EmptyBytes(fd int, size int64) int64 {
	from, to := int64(x.From), int64(min(x.From+x.Length, math.MaxInt64))
	empty := max(0, to-max(from, size))
	if x.Flags&extentIsUnwritten != 0 && from < size {
		if data, _, err := SeekData(fd, from, size); err == nil {
			empty += min(data, to, size) - from
		}
	}
	return empty
}
