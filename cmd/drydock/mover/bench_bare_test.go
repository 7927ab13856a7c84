//go:build linux && root

package mover

import (
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// nameBatch is a part of the names of a directory.
type nameBatch struct {
	dir    string
	fd     int
	names  nameList
	lo, hi int
	end    func()
}

// eachBatch calls f for all names of the directories in a tree, in a number of workers.
func eachBatch(b *testing.B, root string, workers int, f func(nameBatch)) {
	b.Helper()
	dirs, err := filepath.Glob(root + "/dir*")
	must(b, err)
	var all sync.WaitGroup
	batches := make(chan nameBatch)
	for range workers {
		all.Go(func() {
			for p := range batches {
				f(p)
				p.end()
			}
		})
	}
	for _, dir := range dirs {
		fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		must(b, err)
		names, err := readdir(fd)
		must(b, err)
		var users sync.WaitGroup
		for lo := 0; lo < names.len(); lo += blockEntries {
			users.Add(1)
			batches <- nameBatch{filepath.Base(dir), fd, names, lo, min(lo+blockEntries, names.len()), users.Done}
		}
		all.Go(func() {
			users.Wait()
			unix.Close(fd)
		})
	}
	close(batches)
	all.Wait()
}

// eachFile calls f for all files of a tree, with twice as many workers as CPUs, like the mover.
func eachFile(b *testing.B, root string, f func(dirfd int, dir, name string)) {
	b.Helper()
	eachBatch(b, root, 2*runtime.GOMAXPROCS(0), func(p nameBatch) {
		for i := p.lo; i < p.hi; i++ {
			f(p.fd, p.dir, p.names.at(i).name)
		}
	})
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
		buf := buffers.Get()
		defer buffers.Put(buf)
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
		buf := buffers.Get()
		defer buffers.Put(buf)
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
