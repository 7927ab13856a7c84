//go:build linux

package write

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/fault"
	"drydock.dev/cmd/drydock/mover/fsys"
	"drydock.dev/cmd/drydock/mover/target"
	"drydock.dev/cmd/drydock/mover/tree"
)

// Flags sets and compares the inode flags, and notes what the target cannot hold.
type Flags struct {
	*tree.Job
	Own        *target.Owner
	tryFlags   sync.Once // sets LacksFlags, see missingFlags
	lacksFlags uint32
	unsetFlags atomic.Uint32 // could not be set or removed on some entry, which a warning names
}

// setDirFlags gives an open directory of the target its flags. The root keeps those that the platform gave it. So d.flags
// becomes what new entries of the directory inherit.
func (p *Flags) setDirFlags(fd int, d *tree.Dir) error {
	if d.Parent == nil {
		have := p.Dst.FlagsOf(fd)
		for _, f := range fsys.InodeFlags {
			if f.Needed && have&f.Bit != 0 && d.Flags&f.Bit == 0 {
				return fault.New(fault.Target, "using the directory with the inode flag "+f.Name, "", fault.ErrNotKept)
			}
		}
		if more := have &^ d.Flags; more != 0 {
			p.Problems.Warn("the target's root directory keeps the inode flag %s (chattr), which the source's root directory does not have",
				fsys.FlagNames(more))
		}
		d.Flags |= have
		p.noteRootLosses()
	}
	return p.setFlags(fd, d.Path(), d.Flags)
}

// setFlags gives an open entry of the target the flags of the source's entry. A file has to be empty, because some flags
// have no effect otherwise. If a needed flag cannot be set, the copy of the entry fails. Any other flag becomes a
// warning.
func (p *Flags) setFlags(fd int, path string, want uint32) error {
	if want == 0 && p.Dst.NoFlags.Load() {
		return nil
	}
	have, err := fsys.RawFlags(fd)
	if err != nil {
		p.Dst.NoFlags.Store(true)
	}
	for _, remove := range []bool{true, false} { // an inherited flag may exclude another one
		for _, f := range fsys.InodeFlags {
			if (have^want)&f.Bit == 0 || (have&f.Bit != 0) != remove {
				continue
			}
			next := have ^ f.Bit
			if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.FS_IOC_SETFLAGS, uintptr(unsafe.Pointer(&next))); errno == 0 {
				if now, err := fsys.RawFlags(fd); err == nil && (now^want)&f.Bit == 0 {
					have = now
					continue
				}
			}
			if f.Needed {
				return fault.New(fault.Target, "setting the inode flag "+f.Name+" on", path, fault.ErrNotKept)
			}
			outcome := fault.NotCopied
			if remove {
				outcome = fault.NotRemoved
			}
			p.Problems.Omit("the inode flag "+f.Name+" (chattr)", outcome, path)
			p.unsetFlags.Or(f.Bit)
		}
	}
	return nil
}

// sameFlags compares the flags of a file whose other attributes are equal.
func (p *Flags) sameFlags(ctx context.Context, at tree.Pair, e *tree.Entry) (bool, error) {
	var flags [2]uint32
	dirs := [2]int{fault.Source: at.Src, fault.Target: at.Dst}
	for k, r := range []*fsys.Root{p.Src, p.Dst} {
		fd, err := fsys.Openat(dirs[k], e.Name, unix.O_RDONLY, 0)
		if err != nil && r.Side == fault.Target {
			return false, nil // a file that cannot be read is replaced
		}
		if err != nil {
			return false, at.Fault(r.Side, "opening", e, err)
		}
		flags[k] = r.FlagsOf(fd)
		unix.Close(fd)
	}
	return !p.flagsDiffer(flags[fault.Source], flags[fault.Target]), context.Cause(ctx)
}

// flagsDiffer reports whether a file lacks flags of the source that the target could store, or has others. Without this exception, a file
// with such a flag would be copied completely in each pass.
func (p *Flags) flagsDiffer(want, have uint32) bool {
	return want != have && (want^have)&^p.missingFlags() != 0
}

// IgnoredFlags returns the flags that the verification does not compare, because the copy found that the target does not take
// them. It writes nothing.
func (p *Flags) IgnoredFlags() uint32 {
	if p.Dst.NoFlags.Load() {
		return fsys.CarriedFlags
	}
	return p.lacksFlags | p.unsetFlags.Load()
}

// missingFlags returns the flags that files of the target cannot have. It tries them once, with an empty file.
func (p *Flags) missingFlags() uint32 {
	p.tryFlags.Do(func() {
		if p.Dst.NoFlags.Load() {
			p.lacksFlags = fsys.CarriedFlags
			return
		}
		if p.Own.CheckOwned() != nil {
			return // every difference counts
		}
		fd := -1
		name, err := p.Own.MakeTemp(p.Tree.Top, func(name string) (err error) {
			fd, err = fsys.Openat(p.Dst.Fd, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0)
			return err
		})
		if err != nil {
			return
		}
		defer unix.Close(fd)
		defer p.Own.Discard(p.Dst.Fd, name)
		base, err := fsys.RawFlags(fd)
		if err != nil {
			return
		}
		base &^= fsys.CarriedFlags // those of the directory, which the file has inherited
		for _, f := range fsys.InodeFlags {
			if !f.Needed && !fsys.TakesFlag(fd, base, f.Bit) {
				p.lacksFlags |= f.Bit
			}
		}
	})
	return p.lacksFlags
}

// Project ids, extent size hints and preallocated space are not carried: they belong to the quota and the layout of a volume.
// A workload can miss them, for example when its preallocated log meets a full volume. So a pass that copies an entry, or sets the
// attributes of a directory, warns of them.

// minPreallocated is the preallocated space that deserves a warning. A file system may round less than that up.
const minPreallocated = 64 << 10

// noteLosses compares an open entry of the source with the source's root: entries inherit the settings of the root, and those are the
// volume's.
func (p *Flags) noteLosses(fd int, path func() string) fsys.Settings {
	if p.Src.NoSettings {
		return fsys.Settings{}
	}
	s, err := fsys.ReadSettings(fd)
	if err == nil {
		p.noteLostSettings(&s, &p.Src.Settings, path)
	}
	return s
}

// noteRootLosses compares the roots. A target's root with a project of its own has the quota of the platform.
func (p *Flags) noteRootLosses() {
	other := p.Dst.Settings
	if other.Project != 0 {
		other.Project = p.Src.Settings.Project
	}
	p.noteLostSettings(&p.Src.Settings, &other, p.Tree.Top.Path)
}

func (p *Flags) noteLostSettings(s, other *fsys.Settings, path func() string) {
	if s.Project != 0 && s.Project != other.Project {
		p.Problems.Omit("the project id (chattr -p)", fault.NotCopied, path())
	}
	if s.Hints() != [2]uint32{} && s.Hints() != other.Hints() {
		p.Problems.Omit("the extent size hint (xfs_io, extsize)", fault.NotCopied, path())
	}
}

// noteFileLosses is noteLosses for a regular file, which can also have preallocated space.
func (p *Flags) noteFileLosses(fd int, st *unix.Stat_t, d *tree.Dir, e *tree.Entry) {
	path := func() string { return d.Join(e.Name) }
	s := p.noteLosses(fd, path)
	if st.Blocks*512 >= minPreallocated && p.isPreallocated(fd, st.Size, &s) {
		p.Problems.Omit("the preallocated space (fallocate)", fault.NotCopied, path())
	}
}

// isPreallocated reports whether an open file of the source has space that holds no data: beyond its end, or in ranges that were never
// written. xfs also allocates ahead of a writer, but marks the files that a process has preallocated. A file system that does not list
// extents has none.
func (p *Flags) isPreallocated(fd int, size int64, s *fsys.Settings) bool {
	if p.Src.Kind == unix.XFS_SUPER_MAGIC && s.Flags&fsys.FlagPreallocated == 0 {
		return false
	}
	empty := int64(0)
	m := fsys.Extents{Length: math.MaxUint64}
	for m.Count = uint32(len(m.List)); fsys.Ioctl(fd, fsys.GetExtents, unsafe.Pointer(&m)) == nil && m.Mapped > 0; {
		for _, x := range m.List[:m.Mapped] {
			if empty += x.EmptyBytes(fd, size); empty >= minPreallocated {
				return true
			}
			if x.Flags&fsys.ExtentIsLast != 0 {
				return false
			}
			m.Start = x.From + x.Length
		}
	}
	return false
}
