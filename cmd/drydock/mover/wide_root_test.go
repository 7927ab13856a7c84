//go:build linux && root

package mover

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/fault"
	"drydock.dev/cmd/drydock/mover/fsys"
	"drydock.dev/cmd/drydock/mover/progress"
	"drydock.dev/cmd/drydock/mover/tree"
)

// A directory is read in pieces by several workers. Its entries of all kinds arrive in order.
func TestWideDirectoryIsCopied(t *testing.T) {
	src, dst := newVolume(t, 512, "mkfs.ext4", "-q", "-F", "-N", "40000"), newVolume(t, 512, "mkfs.ext4", "-q", "-F", "-N", "40000")
	n := 3*tree.PieceNames + 77
	for i := range n {
		path := filepath.Join(src.dir, fmt.Sprintf("n%d", i*7919%n))
		switch {
		case i%1000 == 0:
			must(t, os.Mkdir(path, 0o755))
			writeFile(t, path+"/inner", fmt.Sprint(i))
		case i%1000 == 1:
			must(t, os.Link(filepath.Join(src.dir, fmt.Sprintf("n%d", (i-1)*7919%n), "inner"), path))
		case i%100 == 2:
			must(t, os.Symlink("inner", path))
		default:
			writeFile(t, path, fmt.Sprint(i))
		}
	}
	waitSettled()
	o := firstPass(src.dir, dst.dir)
	first := runFirstPass(t, o)
	again := runFirstPass(t, o)
	if again.RecordedFiles != first.RecordedFiles || again.TrustedFiles < first.RecordedFiles*9/10 || again.Files != 0 {
		t.Errorf("%+v, then %+v", first, again)
	}
	must(t, os.Remove(filepath.Join(src.dir, "n5")))
	writeFile(t, filepath.Join(src.dir, "m"), "new")
	final := copyTree(t, finalPass(src.dir, dst.dir))
	if final.Files != 1 || final.Deleted != 1 || final.TrustedFiles < first.RecordedFiles*9/10 {
		t.Errorf("%+v", final)
	}
	requireEqualTrees(t, src.dir, dst.dir)
	requireNoTemps(t, dst.dir)
}

// Each pass takes little memory and few descriptors for a directory with many files. It would take 100 MiB if it kept a whole
// directory unpacked, and 37 descriptors if each piece had its own.
func TestMemoryForWideDirectoryIsBounded(t *testing.T) {
	const files, limit, descriptors = 150_000, 40, 36
	mkfs := []string{"mkfs.ext4", "-q", "-F", "-b", "1024", "-N", "160000", "-E", "lazy_itable_init=0"}
	src, dst := newVolume(t, 256, mkfs...), newVolume(t, 256, mkfs...)
	must(t, os.Mkdir(src.dir+"/d", 0o755))
	fd, err := unix.Open(src.dir+"/d", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	must(t, err)
	defer unix.Close(fd)
	for i := range files {
		must(t, unix.Mknodat(fd, fmt.Sprintf("file%08d", i), unix.S_IFREG|0o644, 0))
	}
	waitSettled()
	requireFewDescriptors(t, src.dir, descriptors)
	for _, pass := range []tree.Pass{tree.PassFirst, tree.PassFirst, tree.PassFinal} {
		m := measured{Source: src.dir, Target: dst.dir, Pass: pass}.run(t)
		if m.Peak > limit {
			t.Errorf("pass %d took %.0f MiB", pass, m.Peak)
		}
		if got := m.Result.RecordedFiles + m.Result.TrustedFiles; got < files {
			t.Errorf("%+v", m.Result)
		}
	}
}

// requireFewDescriptors reads a tree while the process may have few descriptors.
func requireFewDescriptors(t *testing.T, dir string, most uint64) {
	t.Helper()
	var before unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &before))
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: most, Max: before.Max}))
	defer func() { must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &before)) }()
	r, err := fsys.OpenRoot(dir, fault.Source)
	must(t, err)
	defer r.Close()
	_, err = tree.Scan(context.Background(), r, 2, progress.NewMeter(nil, 0), &fault.Problems{})
	must(t, err)
}
