//go:build linux && root

package mover

import (
	"context"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/units"
)

// BenchmarkHotFile measures the final pass over one file that is in use until the end. Since the last first pass, 1 % of its
// blocks were written to. DRYDOCK_BENCH_MIB is its size. Caches are dropped before each pass. It reports:
//
//	final/read     the final pass ÷ reading the source once
//	without/read   the same without kept hashes, as in a new process
//	target-read-%  the part of the target that the final pass read from its device, of the file's size
func BenchmarkHotFile(b *testing.B) {
	mib := numberFrom(b, "DRYDOCK_BENCH_MIB", 1024)
	src, dst := newVolume(b, mib+mib/8+64), newVolume(b, mib+mib/8+64)
	size := int64(mib) << 20
	writeNoise(b, src.dir+"/db", size)
	r := rand.New(rand.NewPCG(1, 1))
	var with, without, part, written []float64
	for b.Loop() {
		var took [2]float64
		for i, keeps := range []bool{true, false} {
			o := firstPass(src.dir, dst.dir)
			o.Settled, o.OwnOnly, o.Refill = time.Hour, true, true
			last, err := Copy(context.Background(), o)
			must(b, err)
			writePages(b, r, src.dir+"/db", size)
			dropCaches(b)
			before := dst.bytesRead(b)
			o = finalPass(src.dir, dst.dir)
			o.OwnOnly, o.Refill = true, true
			if keeps {
				o.Last = last
			}
			began := time.Now()
			result, err := Copy(context.Background(), o)
			must(b, err)
			took[i] = time.Since(began).Seconds()
			if keeps {
				part = append(part, 100*float64(dst.bytesRead(b)-before)/float64(size))
				written = append(written, 100*float64(result.Bytes)/float64(size))
			}
		}
		dropCaches(b)
		once := readOnce(b, src.dir+"/db")
		b.Logf("final pass %.2f s, without hashes %.2f s, reading once %.2f s", took[0], took[1], once)
		with, without = append(with, took[0]/once), append(without, took[1]/once)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(with), "final/read")
	b.ReportMetric(median(without), "without/read")
	b.ReportMetric(median(part), "target-read-%")
	b.ReportMetric(median(written), "written-%")
}

func writeNoise(b *testing.B, path string, size int64) {
	b.Helper()
	f, err := os.Create(path)
	must(b, err)
	r, block := rand.NewChaCha8([32]byte{}), make([]byte, 1<<20)
	for range size >> 20 {
		_, _ = r.Read(block)
		_, err := f.Write(block)
		must(b, err)
	}
	must(b, f.Close())
}

// writePages writes to 1 % of the blocks, in groups of 16 as a database does.
func writePages(b *testing.B, r *rand.Rand, path string, size int64) {
	b.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	must(b, err)
	block := make([]byte, units.CompareBlock)
	for range size / units.CompareBlock / 100 / 16 {
		first := r.Int64N(size/units.CompareBlock - 16)
		for i := range int64(16) {
			block[0], block[1], block[2] = byte(r.IntN(256)), byte(r.IntN(256)), byte(i)
			_, err := f.WriteAt(block, (first+i)*units.CompareBlock)
			must(b, err)
		}
	}
	must(b, f.Close())
}

func readOnce(b *testing.B, path string) float64 {
	b.Helper()
	began := time.Now()
	f, err := os.Open(path)
	must(b, err)
	defer f.Close()
	buf := make([]byte, 1<<20)
	for {
		n, err := unix.Read(int(f.Fd()), buf)
		must(b, err)
		if n == 0 {
			return time.Since(began).Seconds()
		}
	}
}
