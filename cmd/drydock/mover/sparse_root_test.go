//go:build linux && root

package mover

import (
	"bytes"
	"context"
	"math"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/fault"
	"drydock.dev/cmd/drydock/mover/fsys"
	"drydock.dev/cmd/drydock/mover/units"
	"drydock.dev/shared/moverreport"
	"drydock.dev/test/seed"
)

// holesFileSystems are the file systems whose preallocated ranges count as data while their pages are in memory.
var holesFileSystems = map[string][]string{"ext4": {"mkfs.ext4", "-q", "-F", "-b", "4096"}, "xfs": {"mkfs.xfs", "-q", "-f"}}

func onHolesFileSystems(t *testing.T, f func(t *testing.T, src, dst volume)) {
	t.Helper()
	for name, mkfs := range holesFileSystems {
		t.Run(name, func(t *testing.T) { f(t, newVolume(t, 400, mkfs...), newVolume(t, 400, mkfs...)) })
	}
}

// keepDropping reads pages of a file and drops them from memory, until the returned function is called.
func keepDropping(t *testing.T, path string, pages []int64) (stop func()) {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	end, done := make(chan bool), make(chan bool)
	go func() {
		defer close(done)
		b := make([]byte, 4096)
		for {
			for _, at := range pages {
				_, _ = f.ReadAt(b, at)
				_ = unix.Fadvise(int(f.Fd()), at, int64(len(b)), unix.FADV_DONTNEED)
			}
			select {
			case <-end:
				return
			default:
			}
		}
	}()
	return func() {
		close(end)
		<-done
		must(t, f.Close())
	}
}

// Another process reads preallocated ranges, and their pages leave memory, also between two searches for holes.
func TestHashOfUnchangedFileStaysTheSameWhilePagesLeaveMemory(t *testing.T) {
	onHolesFileSystems(t, func(t *testing.T, src, _ volume) {
		const n = 32
		f, err := os.Create(src.dir + "/db")
		must(t, err)
		defer f.Close()
		pages := make([]int64, n)
		for i := range pages {
			pages[i] = int64(i)*units.Size + 3*4096
			must(t, unix.Fallocate(int(f.Fd()), 0, pages[i], 4096))
			_, err = f.WriteAt([]byte("data of this unit"), int64(i)*units.Size+8*4096)
			must(t, err)
		}
		must(t, f.Truncate(n*units.Size))
		must(t, f.Sync())
		hash := func() (all [n]units.Sum) {
			for i := range all {
				all[i] = units.ZeroSum()
			}
			must(t, units.HashFileUnits(context.Background(), int(f.Fd()), n*units.Size, 0, nil, func(i int64, s units.Sum) { all[i] = s }))
			return all
		}
		want := hash()
		stop := keepDropping(t, src.dir+"/db", pages)
		defer stop()
		for i := range 500 {
			if hash() != want {
				t.Fatalf("hash %d differs", i)
			}
		}
	})
}

// A preallocated range is in memory when the patch searches for holes, and is not when it reads the file.
func TestPagesMayLeaveMemoryDuringPatch(t *testing.T) {
	onHolesFileSystems(t, func(t *testing.T, src, dst volume) {
		r := seed.Random(t)
		path := src.dir + "/db"
		writeRandomFile(t, r, path, 2<<20)
		must(t, os.Truncate(path, 6<<20))
		last := runFirstPass(t, hotPass(src.dir, dst.dir))
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		must(t, err)
		defer f.Close()
		must(t, unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_ZERO_RANGE, 1<<20, 128<<10))
		_, err = f.WriteAt(append([]byte("new"), make([]byte, 65533)...), 4<<20)
		must(t, err)
		must(t, f.Sync())
		_, err = f.ReadAt(make([]byte, 128<<10), 1<<20)
		must(t, err)
		o := finalPass(src.dir, dst.dir)
		o.Last = last
		o.hooks.wrote = func(string, int64) { _ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) }
		if _, err := Copy(context.Background(), o); err != nil {
			t.Fatal(err)
		}
		requireEqualTrees(t, src.dir, dst.dir)
	})
}

// A file with kept hashes gets a hole at its end, see TestUnitsOfNewHoleAreNotRead.
func TestFileWithKeptHashesGetsHole(t *testing.T) {
	src, dst := newVolume(t, 256), newVolume(t, 256)
	r := seed.Random(t)
	writeRandomFile(t, r, src.dir+"/map", 64<<20)
	last := runFirstPass(t, hotPass(src.dir, dst.dir))
	must(t, os.Truncate(src.dir+"/map", 120<<20))
	for _, pass := range []Options{hotPass(src.dir, dst.dir), finalPass(src.dir, dst.dir)} {
		pass.Last = last
		result, err := Copy(context.Background(), pass)
		must(t, err)
		last = result
	}
	if !last.Verified {
		t.Errorf("%+v", last)
	}
	requireEqualTrees(t, src.dir, dst.dir)
}

// On a file system that is not trusted, the verification does not believe the holes that the copy believed.
func TestFalseHolesAreFound(t *testing.T) {
	for name, c := range map[string]struct {
		lies bool
		kind int64 // of the source's file system
	}{
		"ZFS, and a wrong search": {true, 0x2fc12fc1}, "ZFS": {false, 0x2fc12fc1}, "ext4": {false, unix.EXT4_SUPER_MAGIC},
	} {
		t.Run(name, func(t *testing.T) {
			src, dst := newVolume(t, 64), newVolume(t, 64)
			must(t, os.WriteFile(src.dir+"/table", bytes.Repeat([]byte("d"), 200_000), 0o600))
			writeFile(t, src.dir+"/sparse", "begin")
			must(t, os.Truncate(src.dir+"/sparse", 1<<20))
			if c.lies {
				fsys.Seek = func(fd int, off int64, whence int) (int64, error) { return 0, unix.ENXIO }
				t.Cleanup(func() { fsys.Seek = unix.Seek })
			}
			o := Options{Source: src.dir, Target: dst.dir}
			o.hooks.fileSystem = func(s fault.Side) int64 { return []int64{c.kind, unix.EXT4_SUPER_MAGIC}[s] }
			if c.lies {
				if e := copyFails(t, o, moverreport.CodeMismatch); !strings.Contains(e.Message, "2 entries differ") {
					t.Error(e)
				}
				fsys.Seek = unix.Seek // the next run copies the file again
			}
			copyTree(t, o)
			requireEqualTrees(t, src.dir, dst.dir)
		})
	}
}

// Memory and time of a pass do not depend on the size of a sparse file. This one has the largest size that there is.
func TestSparseFileMayHaveAnySize(t *testing.T) {
	for name, keeps := range map[string]bool{"with kept hashes": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			src, dst := newVolume(t, 400, "mkfs.xfs", "-q", "-f"), newVolume(t, 400, "mkfs.xfs", "-q", "-f")
			r := seed.Random(t)
			path := src.dir + "/map"
			writeRandomFile(t, r, path, 2<<20)
			last := runFirstPass(t, hotPass(src.dir, dst.dir))
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			must(t, err)
			defer f.Close()
			const size = math.MaxInt64
			must(t, f.Truncate(size))
			_, err = f.WriteAt([]byte("the end"), size-7)
			must(t, err)
			o := hotPass(src.dir, dst.dir)
			if keeps {
				o.Last = last
			}
			last = runFirstPass(t, o)
			for _, at := range []int64{5, 1 << 20, size - 100_000, size - 4} {
				_, err = f.WriteAt([]byte("new"), at)
				must(t, err)
			}
			o = finalPass(src.dir, dst.dir)
			if keeps {
				o.Last = last
			}
			if _, err := Copy(context.Background(), o); err != nil {
				t.Fatal(err)
			}
			for _, at := range []int64{0, 1 << 20, size - 100_500, size - 1000} {
				want, have := make([]byte, 1000), make([]byte, 1000)
				_, err := f.ReadAt(want, at)
				must(t, err)
				if at > 0 && bytes.Count(want, []byte{0}) == len(want) {
					t.Fatalf("there is nothing at %d", at)
				}
				g, err := os.Open(dst.dir + "/map")
				must(t, err)
				_, err = g.ReadAt(have, at)
				must(t, err)
				must(t, g.Close())
				if string(want) != string(have) {
					t.Errorf("the copy differs at %d", at)
				}
			}
		})
	}
}
