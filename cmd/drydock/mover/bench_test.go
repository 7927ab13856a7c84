//go:build linux && root

package mover

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/fsys"
)

// BenchmarkCopy compares the mover with rsync, with cp, and with plain reads and writes of the same bytes. In each
// iteration, each of them copies the same tree, one after the other. Each starts with cold caches and an empty directory of
// the same file system, and its time includes the flush. The order changes with each iteration, so that other load on the
// machine affects all of them. The benchmark reports the median seconds, and the medians of the ratios of two times of the
// same iteration.
func BenchmarkCopy(b *testing.B) {
	for _, tree := range []struct {
		name  string
		make  func(b *testing.B, dir string)
		rsync string // its flags
	}{
		{"20000-small-files", smallFiles, "-aHAX"},
		{"4-big-files", bigFiles, "-aHAX"},
		{"sparse-files", sparseFiles, "-aHAXS"},
	} {
		b.Run(tree.name, func(b *testing.B) {
			src, dst := newVolume(b, 2048), newVolume(b, 2048)
			tree.make(b, src.dir)
			compare(b, contenders(b, src.dir, tree.rsync), dst.dir)
		})
	}
}

// smallFiles writes 20,000 files of 4 to 16 KiB.
func smallFiles(b *testing.B, dir string) {
	r := rand.New(rand.NewPCG(1, 1))
	for i := range 20_000 {
		sub := filepath.Join(dir, fmt.Sprintf("d%d/e%d", i%10, i%100))
		if i < 100 {
			must(b, os.MkdirAll(sub, 0o755))
		}
		must(b, os.WriteFile(filepath.Join(sub, fmt.Sprintf("file%d", i)), bytes.Repeat([]byte{byte(i)}, (4<<10)+r.IntN(12<<10)), 0o644))
	}
}

// bigFiles writes 4 files of 250 MiB.
func bigFiles(b *testing.B, dir string) {
	block := make([]byte, 1<<20)
	r := rand.NewChaCha8([32]byte{})
	for i := range 4 {
		f, err := os.Create(filepath.Join(dir, fmt.Sprintf("big%d", i)))
		must(b, err)
		for range 250 {
			_, _ = r.Read(block)
			_, err := f.Write(block)
			must(b, err)
		}
		must(b, f.Close())
	}
}

// sparseFiles writes 2 files of 1 GiB with 10 MiB of data each.
func sparseFiles(b *testing.B, dir string) {
	for i := range 2 {
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

// raw reads the data of all files and writes it to one file, without metadata.
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
			from, to, err := fsys.SeekData(int(in.Fd()), off, size)
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

// contender is one way to copy.
type contender struct {
	name string
	copy func(to string)
}

// contenders returns the ways to copy. The first is the baseline. rsync and cp do not verify their copies. "rsync+check" is
// rsync, followed by a run that compares checksums. That run may read the target from the page cache.
func contenders(b *testing.B, src, flags string) []contender {
	mover := func(verify bool) func(string) {
		return func(to string) {
			_, err := Copy(context.Background(), Options{Source: src, Target: to, NoVerify: !verify})
			must(b, err)
		}
	}
	run := func(name string, args ...string) func(string) {
		return func(to string) { runCommand(b, name, append(args, src+"/.", to)...) }
	}
	once, check := run("rsync", flags), run("rsync", flags+"nc")
	return []contender{
		{"raw", func(to string) { raw(b, src, to) }},
		{"mover", mover(false)}, {"mover+verify", mover(true)},
		{"rsync", once}, {"rsync+check", func(to string) { once(to); check(to) }},
		{"cp", run("cp", "-a")},
	}
}

// compare measures each way once in each iteration, and reports the medians.
func compare(b *testing.B, ways []contender, dst string) {
	timed(b, ways[0], dst) // not measured: the first writer also allocates the blocks of the image
	took := map[string][]float64{}
	b.ResetTimer()
	for n := 0; b.Loop(); n++ {
		for i := range ways {
			w := ways[(n*2+i)%len(ways)]
			took[w.name] = append(took[w.name], timed(b, w, dst).Seconds())
		}
	}
	b.ReportMetric(0, "ns/op") // hidden, because the sum of all ways has no meaning
	for _, w := range ways {
		b.ReportMetric(median(took[w.name]), w.name+"-s")
	}
	for _, r := range [][2]string{
		{"rsync", "mover"}, {"cp", "mover"}, {"raw", "mover"}, {"rsync", "mover+verify"}, {"rsync+check", "mover+verify"},
	} {
		var ratios []float64
		for i, mine := range took[r[1]] {
			ratios = append(ratios, took[r[0]][i]/mine)
		}
		b.ReportMetric(median(ratios), r[0]+"/"+r[1])
	}
}

// timed copies into a new directory and then removes it. It returns the time of the copy, including its flush.
func timed(b *testing.B, w contender, dst string) time.Duration {
	to := filepath.Join(dst, "to")
	b.StopTimer()
	must(b, os.Mkdir(to, 0o755))
	unix.Sync()
	must(b, os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0))
	b.StartTimer()
	began := time.Now()
	w.copy(to)
	flush(b, to)
	took := time.Since(began)
	b.StopTimer()
	must(b, os.RemoveAll(to))
	b.StartTimer()
	return took
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// flush writes the file system of the directory to its device.
func flush(b *testing.B, dir string) {
	fd, err := unix.Open(dir, unix.O_RDONLY, 0)
	must(b, err)
	defer unix.Close(fd)
	must(b, unix.Syncfs(fd))
}
