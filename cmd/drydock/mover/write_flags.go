//go:build linux

package mover

import (
	"context"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// flagPolicy sets and compares the inode flags, and notes what the target cannot hold.
type flagPolicy struct {
	*job
	own        *owner
	tryFlags   sync.Once // sets lacksFlags, see missingFlags
	lacksFlags uint32
	unsetFlags atomic.Uint32 // could not be set or removed on some entry, which a warning names
}

// setDirFlags gives an open directory of the target its flags. The root keeps those that the platform gave it. So d.flags
// becomes what new entries of the directory inherit.
func (p *flagPolicy) setDirFlags(fd int, d *dir) error {
	if d.parent == nil {
		have := p.dst.flagsOf(fd)
		for _, f := range inodeFlags {
			if f.needed && have&f.bit != 0 && d.flags&f.bit == 0 {
				return newFault(target, "using the directory with the inode flag "+f.name, "", errNotKept)
			}
		}
		if more := have &^ d.flags; more != 0 {
			p.problems.warn("the target's root directory keeps the inode flag %s (chattr), which the source's root directory does not have",
				flagNames(more))
		}
		d.flags |= have
		p.noteRootLosses()
	}
	return p.setFlags(fd, d.path(), d.flags)
}

// setFlags gives an open entry of the target the flags of the source's entry. A file has to be empty, because some flags
// have no effect otherwise. If a needed flag cannot be set, the copy of the entry fails. Any other flag becomes a
// warning.
func (p *flagPolicy) setFlags(fd int, path string, want uint32) error {
	if want == 0 && p.dst.noFlags.Load() {
		return nil
	}
	have, err := rawFlags(fd)
	if err != nil {
		p.dst.noFlags.Store(true)
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
				return newFault(target, "setting the inode flag "+f.name+" on", path, errNotKept)
			}
			outcome := notCopied
			if remove {
				outcome = notRemoved
			}
			p.problems.omit("the inode flag "+f.name+" (chattr)", outcome, path)
			p.unsetFlags.Or(f.bit)
		}
	}
	return nil
}

// sameFlags compares the flags of a file whose other attributes are equal.
func (p *flagPolicy) sameFlags(ctx context.Context, at pair, e *entry) (bool, error) {
	var flags [2]uint32
	dirs := [2]int{source: at.src, target: at.dst}
	for k, r := range []*root{p.src, p.dst} {
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
	return !p.flagsDiffer(flags[source], flags[target]), context.Cause(ctx)
}

// flagsDiffer reports whether a file lacks flags of the source that the target could store, or has others. Without this exception, a file
// with such a flag would be copied completely in each pass.
func (p *flagPolicy) flagsDiffer(want, have uint32) bool {
	return want != have && (want^have)&^p.missingFlags() != 0
}

// ignoredFlags returns the flags that the verification does not compare, because the copy found that the target does not take
// them. It writes nothing.
func (p *flagPolicy) ignoredFlags() uint32 {
	if p.dst.noFlags.Load() {
		return carriedFlags
	}
	return p.lacksFlags | p.unsetFlags.Load()
}

// missingFlags returns the flags that files of the target cannot have. It tries them once, with an empty file.
func (p *flagPolicy) missingFlags() uint32 {
	p.tryFlags.Do(func() {
		if p.dst.noFlags.Load() {
			p.lacksFlags = carriedFlags
			return
		}
		if p.own.checkOwned() != nil {
			return // every difference counts
		}
		fd := -1
		name, err := p.own.makeTemp(p.tree.top, func(name string) (err error) {
			fd, err = openat(p.dst.fd, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0)
			return err
		})
		if err != nil {
			return
		}
		defer unix.Close(fd)
		defer p.own.discard(p.dst.fd, name)
		base, err := rawFlags(fd)
		if err != nil {
			return
		}
		base &^= carriedFlags // those of the directory, which the file has inherited
		for _, f := range inodeFlags {
			if !f.needed && !takesFlag(fd, base, f.bit) {
				p.lacksFlags |= f.bit
			}
		}
	})
	return p.lacksFlags
}
