//go:build linux && root

package mover

import (
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/fsys"
	"drydock.dev/cmd/drydock/mover/tree"
)

// eachFile calls f for all files of a tree, with twice as many workers as CPUs, like the mover.
func eachFile(b *testing.B, root string, f func(dirfd int, dir, name string)) {
	b.Helper()
	dirs, err := filepath.Glob(root + "/dir*")
	must(b, err)
	var all sync.WaitGroup
	type piece struct {
		dir   string
		fd    int
		names fsys.NameList
		lo    int
	}
	todo := make(chan piece)
	for range 2 * runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for p := range todo {
				for i := p.lo; i < min(p.lo+tree.BlockEntries, p.names.Len()); i++ {
					f(p.fd, p.dir, p.names.At(i).Name)
				}
			}
		})
	}
	var open []int
	for _, dir := range dirs {
		fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		must(b, err)
		open = append(open, fd)
		names, err := fsys.Readdir(fd)
		must(b, err)
		for lo := 0; lo < names.Len(); lo += tree.BlockEntries {
			todo <- piece{filepath.Base(dir), fd, names, lo}
		}
	}
	close(todo)
	all.Wait()
	for _, fd := range open {
		unix.Close(fd)
	}
}

func bareCopy(b *testing.B, src, dst string) {
	dirs := map[string]int{}
	names, err := filepath.Glob(src + "/dir*")
	must(b, err)
	for _, n := range names {
		to := filepath.Join(dst, filepath.Base(n))
		must(b, os.Mkdir(to, 0o755))
		fd, err := unix.Open(to, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		must(b, err)
		defer unix.Close(fd)
		dirs[filepath.Base(n)] = fd
	}
	eachFile(b, src, func(dirfd int, dir, name string) {
		buf := fsys.Buffers.Get()
		defer fsys.Buffers.Put(buf)
		in, err := unix.Openat(dirfd, name, unix.O_RDONLY, 0)
		out, err2 := unix.Openat(dirs[dir], name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o644)
		if err != nil || err2 != nil {
			b.Error(err, err2)
			return
		}
		n, err := unix.Read(in, buf[:])
		if err == nil {
			_, err = unix.Write(out, buf[:n])
		}
		if err != nil {
			b.Error(err)
		}
		unix.Close(in)
		unix.Close(out)
	})
}

func bareRead(b *testing.B, dir string) {
	eachFile(b, dir, func(dirfd int, _, name string) {
		buf := fsys.Buffers.Get()
		defer fsys.Buffers.Put(buf)
		in, err := unix.Openat(dirfd, name, unix.O_RDONLY, 0)
		if err == nil {
			_ = unix.Fadvise(in, 0, 0, unix.FADV_DONTNEED)
			_, err = unix.Read(in, buf[:])
			unix.Close(in)
		}
		if err != nil {
			b.Error(err)
		}
	})
}
