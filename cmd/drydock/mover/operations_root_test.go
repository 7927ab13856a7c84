//go:build linux && root

package mover

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/tree"
	"drydock.dev/cmd/drydock/mover/units"
)

// create makes a file. It never opens an entry that exists: that could be a fifo or a device.
func create(path string, contents []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.Write(contents)
	return err
}

// replace puts another file of the same size and times in the place of a file, and keeps the time of the directory.
func (m *mutator) replace(path string) error {
	var st unix.Stat_t
	other := filepath.Join(m.root, "other")
	if err := unix.Lstat(path, &st); err != nil {
		return err
	}
	if err := create(other, bytes.Repeat([]byte("r"), int(st.Size))); err != nil {
		return err
	}
	times := []unix.Timespec{st.Mtim, st.Mtim}
	return keepTime(filepath.Dir(path), func() error {
		return firstError(unix.UtimesNanoAt(unix.AT_FDCWD, other, times, 0), os.Rename(other, path))
	})
}

// operations change a tree. rename exchanges and hard links come often, because the record depends on neither names nor places.
var operations = []struct {
	name string
	do   func(m *mutator) error
}{
	{"small file", func(m *mutator) error {
		return create(m.newPath(), bytes.Repeat([]byte{byte('a' + m.r.IntN(2))}, m.r.IntN(3)*m.r.IntN(9000)))
	}},
	{"big file", func(m *mutator) error {
		path := m.newPath()
		if err := create(path, []byte("a")); err != nil {
			return err
		}
		return firstError(os.Truncate(path, m.bigSize()), m.writeAt(path, m.r.Int64N(tree.BigFileMin), m.r.IntN(600_000)))
	}},
	{"directory", func(m *mutator) error { return os.Mkdir(m.newPath(), fs.FileMode(m.r.IntN(0o1000))) }},
	{"symlink", func(m *mutator) error { return os.Symlink(m.name(), m.newPath()) }},
	{"special", func(m *mutator) error {
		kind := []uint32{unix.S_IFIFO, unix.S_IFSOCK, unix.S_IFCHR, unix.S_IFBLK}[m.r.IntN(4)]
		return unix.Mknod(m.newPath(), kind|0o640, int(unix.Mkdev(250, uint32(m.r.IntN(1<<20)))))
	}},
	{"hard link", func(m *mutator) error { return os.Link(m.pick(m.paths(fs.ModeDir, false)), m.newPath()) }},
	{"hard link", func(m *mutator) error { return os.Link(m.file(), m.newPath()) }},
	{"remove", func(m *mutator) error { return os.Remove(m.any()) }},
	{"remove tree", func(m *mutator) error {
		if d := m.dir(); d != m.root && m.r.IntN(3) == 0 {
			return os.RemoveAll(d)
		}
		return nil
	}},
	{"exchange files", func(m *mutator) error {
		return unix.Renameat2(unix.AT_FDCWD, m.file(), unix.AT_FDCWD, m.file(), unix.RENAME_EXCHANGE)
	}},
	{"exchange any", func(m *mutator) error {
		return unix.Renameat2(unix.AT_FDCWD, m.any(), unix.AT_FDCWD, m.any(), unix.RENAME_EXCHANGE)
	}},
	{"exchange directories", func(m *mutator) error {
		a, b := m.dir(), m.dir()
		return keepTime(filepath.Dir(a), func() error {
			return keepTime(filepath.Dir(b), func() error {
				return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
			})
		})
	}},
	{"rename", func(m *mutator) error { return os.Rename(m.any(), m.newPath()) }},
	{"replace, same attributes", func(m *mutator) error { return m.replace(m.file()) }},
	{"rewrite, same size and time", func(m *mutator) error { return rewrite(m.file()) }},
	{"write units, same size and time", func(m *mutator) error {
		path := m.file()
		size := m.size(path)
		off := m.r.Int64N(size/units.Size+1) * units.Size
		return keepTime(path, func() error { return m.writeAt(path, off, int(min(size-off, m.r.Int64N(2*units.Size)+1))) })
	}},
	{"truncate", func(m *mutator) error {
		path := m.file()
		return keepTime(path, func() error { return os.Truncate(path, m.bigSize()) })
	}},
	{"truncate small", func(m *mutator) error { return os.Truncate(m.file(), int64(m.r.IntN(9000))) }},
	{"grow sparsely", func(m *mutator) error {
		path := m.file()
		return os.Truncate(path, min(1+3*m.size(path), 64<<20))
	}},
	{"punch", func(m *mutator) error {
		return fallocate(m.file(), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE,
			int64(m.r.IntN(20))*units.Size+int64(m.r.IntN(3)-1)*4096&^4095, int64(1+m.r.IntN(300_000)))
	}},
	{"preallocate", func(m *mutator) error {
		return fallocate(m.file(), uint32(m.r.IntN(2))*unix.FALLOC_FL_KEEP_SIZE, m.r.Int64N(tree.BigFileMin), 1+m.r.Int64N(200_000))
	}},
	{"zero range", func(m *mutator) error {
		return fallocate(m.file(), unix.FALLOC_FL_ZERO_RANGE|uint32(m.r.IntN(2))*unix.FALLOC_FL_KEEP_SIZE,
			m.r.Int64N(tree.BigFileMin), 1+m.r.Int64N(300_000))
	}},
	{"insert or collapse range", func(m *mutator) error {
		mode := []uint32{unix.FALLOC_FL_INSERT_RANGE, unix.FALLOC_FL_COLLAPSE_RANGE}[m.r.IntN(2)]
		return fallocate(m.file(), mode, int64(m.r.IntN(20))*units.Size, int64(1+m.r.IntN(3))*units.Size)
	}},
	{"file to directory", func(m *mutator) error {
		p := m.file()
		return firstError(keepTime(filepath.Dir(p), func() error { return firstError(os.Remove(p), os.Mkdir(p, 0o755)) }),
			create(p+"/in", []byte("x")))
	}},
	{"file to link", func(m *mutator) error {
		p := m.file()
		return keepTime(filepath.Dir(p), func() error { return firstError(os.Remove(p), os.Symlink("x", p)) })
	}},
	{"mode", func(m *mutator) error {
		return unix.Chmod(m.pick(m.paths(fs.ModeSymlink, false)), uint32(m.r.IntN(0o10000)))
	}},
	{"owner", func(m *mutator) error {
		return os.Lchown(m.any(), []int{0, 1, 70000, 1<<31 + 7, 1<<32 - 2}[m.r.IntN(5)], []int{0, 65534, 1<<32 - 2}[m.r.IntN(3)])
	}},
	{"time", func(m *mutator) error {
		t := unix.Timespec{Sec: extremeTimes[m.r.IntN(len(extremeTimes))], Nsec: []int64{0, 1, 999_999_999}[m.r.IntN(3)]}
		return unix.UtimesNanoAt(unix.AT_FDCWD, m.any(), []unix.Timespec{t, t}, unix.AT_SYMLINK_NOFOLLOW)
	}},
	{"attribute", func(m *mutator) error {
		name := []string{"user.a", "user.b", "trusted.c", "security.d"}[m.r.IntN(4)]
		return unix.Lsetxattr(m.any(), name, bytes.Repeat([]byte{byte(m.r.IntN(3))}, m.r.IntN(300)), 0)
	}},
	{"no attribute", func(m *mutator) error { return unix.Lremovexattr(m.any(), "user.a") }},
	{"ACL", func(m *mutator) error {
		acl := []byte("\x02\x00\x00\x00\x01\x00\x06\x00\xff\xff\xff\xff\x02\x00\x04\x00\xe9\x03\x00\x00\x04\x00\x04\x00\xff\xff\xff\xff" +
			"\x10\x00\x06\x00\xff\xff\xff\xff\x20\x00\x04\x00\xff\xff\xff\xff")
		acl[14] = byte(m.r.IntN(8))
		name := []string{"system.posix_acl_access", "system.posix_acl_default"}[m.r.IntN(2)]
		return unix.Setxattr(m.pick(m.paths(fs.ModeSymlink, false)), name, acl, 0)
	}},
	{"reuse of an inode", func(m *mutator) error {
		p := m.file()
		size := m.size(p)
		return keepTime(filepath.Dir(p), func() error {
			return firstError(os.Remove(p), create(p, bytes.Repeat([]byte("q"), int(size))))
		})
	}},
	{"block of names", func(m *mutator) error {
		d, n := m.dir(), tree.BlockEntries-2+m.r.IntN(5)
		for i := range n {
			_ = unix.Mknod(fmt.Sprintf("%s/b%04d", d, i), unix.S_IFREG|0o600, 0)
		}
		return nil
	}},
}

func fallocate(path string, mode uint32, off, length int64) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Fallocate(int(f.Fd()), mode, off, length)
}
