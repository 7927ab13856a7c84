package mover

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkCopy runs the mover, rsync and cp on the same tree, one after the other in each iteration, each into an empty
// directory of the same file system and with a flush at the end, and reports seconds and ratios.
func BenchmarkCopy(b *testing.B) {
	for _, tree := range []struct {
		name  string
		make  func(b *testing.B, dir string)
		rsync string // its flags
	}{
		{"10000-small-files", smallFiles, "-aHAX"},
		{"4-big-files", bigFiles, "-aHAX"},
		{"sparse-files", sparseFiles, "-aHAXS"},
	} {
		b.Run(tree.name, func(b *testing.B) {
			src, dst := newVolume(b, 2048), newVolume(b, 2048)
			tree.make(b, src.dir)
			compare(b, src.dir, dst.dir, tree.rsync)
		})
	}
}

func smallFiles(b *testing.B, dir string) {
	r := rand.New(rand.NewPCG(1, 1))
	for i := range 10_000 {
		sub := filepath.Join(dir, fmt.Sprintf("d%d/e%d", i%10, i%100))
		if i < 100 {
			must(b, os.MkdirAll(sub, 0o755))
		}
		must(b, os.WriteFile(filepath.Join(sub, fmt.Sprintf("file%d", i)), bytes.Repeat([]byte{byte(i)}, 1+r.IntN(8000)), 0o644))
	}
}

func bigFiles(b *testing.B, dir string) {
	block := make([]byte, 1<<20)
	r := rand.NewChaCha8([32]byte{})
	for i := range 4 {
		f, err := os.Create(filepath.Join(dir, fmt.Sprintf("big%d", i)))
		must(b, err)
		for range 160 {
			_, _ = r.Read(block)
			_, err := f.Write(block)
			must(b, err)
		}
		must(b, f.Close())
	}
}

// sparseFiles are 4 of 1 GiB with 10 MiB of data each.
func sparseFiles(b *testing.B, dir string) {
	for i := range 4 {
		f, err := os.Create(filepath.Join(dir, fmt.Sprintf("sparse%d", i)))
		must(b, err)
		for at := range int64(40) {
			_, err := f.WriteAt(bytes.Repeat([]byte{byte(i + 1)}, 256<<10), at*(25<<20))
			must(b, err)
		}
		must(b, f.Truncate(1<<30))
		must(b, f.Close())
	}
}

// raw is what reading and writing the same bytes takes, without anything else.
func raw(b *testing.B, src, to string) {
	out, err := os.Create(filepath.Join(to, "raw"))
	must(b, err)
	buf := make([]byte, 1<<20)
	must(b, filepath.WalkDir(src, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		in, err := os.Open(path)
		must(b, err)
		size, err := in.Seek(0, io.SeekEnd)
		must(b, err)
		for off := int64(0); off < size; {
			from, to, err := nextData(int(in.Fd()), off, size)
			must(b, err)
			for ; from < to; from += int64(len(buf)) {
				n, err := in.ReadAt(buf[:min(int64(len(buf)), to-from)], from)
				must(b, err)
				_, err = out.Write(buf[:n])
				must(b, err)
			}
			off = to
		}
		return in.Close()
	}))
	must(b, out.Close())
}

func compare(b *testing.B, src, dst, rsync string) {
	mover := func(verify bool) func(string) {
		return func(to string) {
			_, err := Copy(context.Background(), Options{Source: src, Target: to, NoVerify: !verify})
			must(b, err)
		}
	}
	run := func(name string, args ...string) func(string) {
		return func(to string) {
			if out, err := exec.Command(name, append(args, src+"/.", to)...).CombinedOutput(); err != nil {
				b.Fatalf("%v: %s", err, out)
			}
		}
	}
	ways := []struct {
		name string
		copy func(to string)
	}{
		{"raw", func(to string) { raw(b, src, to) }}, {"mover", mover(false)}, {"mover+verify", mover(true)}, {"rsync", run("rsync", rsync)}, {"cp", run("cp", "-a")},
	}
	took := map[string]time.Duration{}
	for b.Loop() {
		for _, w := range ways {
			to := filepath.Join(dst, "to")
			must(b, os.Mkdir(to, 0o755))
			unix.Sync()
			began := time.Now()
			w.copy(to)
			flush(b, to)
			took[w.name] += time.Since(began)
			must(b, os.RemoveAll(to))
		}
	}
	for _, w := range ways {
		b.ReportMetric(took[w.name].Seconds()/float64(b.N), w.name+"-s")
	}
	b.ReportMetric(float64(took["rsync"])/float64(took["mover"]), "x-faster-than-rsync")
	b.ReportMetric(float64(took["cp"])/float64(took["mover"]), "x-faster-than-cp")
	b.ReportMetric(float64(took["rsync"])/float64(took["mover+verify"]), "verified-x-faster-than-rsync")
}

func flush(b *testing.B, dir string) {
	fd, err := unix.Open(dir, unix.O_RDONLY, 0)
	must(b, err)
	defer unix.Close(fd)
	must(b, unix.Syncfs(fd))
}
