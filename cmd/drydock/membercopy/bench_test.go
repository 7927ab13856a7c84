//go:build linux && root

package membercopy

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"drydock.dev/shared/moverreport"
)

// BenchmarkFinalPassWithoutChanges measures how long the member is stopped if nothing was written since the last first pass:
// from the signal, in the file that the kubelet writes, to the report. The data are 500 MB in 5,000 files.
func BenchmarkFinalPassWithoutChanges(b *testing.B) {
	m := newMember(b, 1100, "data")
	r := rand.New(rand.NewPCG(1, 1))
	for i := range 5000 {
		dir := m.source(fmt.Sprintf("data/d%d", i%50))
		must(b, os.MkdirAll(dir, 0o755))
		must(b, os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%d", i)), noise(r, 100_000), 0o644))
	}
	benchmarkFinal(b, m, time.Second, func() {}, func(c moverreport.ClaimReport) {
		if c.TrustedFiles != 5002 {
			b.Fatalf("it was not at rest: %+v", c)
		}
	})
}

// BenchmarkFinalPassOfOneBigFile copies a database of 300 MB. 1 % of it is written to since the last first pass. It
// reports the fraction that was written, and the forecast of the last first pass divided by the duration of the final
// pass.
func BenchmarkFinalPassOfOneBigFile(b *testing.B) {
	const size, page = 300_000_000, 4096
	m := newMember(b, 800, "data")
	r := rand.New(rand.NewPCG(1, 1))
	must(b, os.WriteFile(m.source("data/big"), noise(r, size), 0o644))
	dirty := func() {
		f, err := os.OpenFile(m.source("data/big"), os.O_RDWR, 0)
		must(b, err)
		for range size / page / 100 {
			_, err := f.WriteAt(noise(r, page), r.Int64N(size/page)*page)
			must(b, err)
		}
		must(b, f.Close())
	}
	var written []float64
	benchmarkFinal(b, m, time.Minute, dirty, func(c moverreport.ClaimReport) { written = append(written, 100*float64(c.Bytes)/size) })
	b.ReportMetric(median(written), "written-%")
}

// BenchmarkSignalDuringPass measures the time from the signal to the beginning of the final pass while a first
// pass copies 300 MB.
func BenchmarkSignalDuringPass(b *testing.B) {
	m := newMember(b, 800, "data")
	r := rand.New(rand.NewPCG(1, 1))
	must(b, os.WriteFile(m.source("data/big"), noise(r, 300_000_000), 0o644))
	var late []float64
	for b.Loop() {
		must(b, os.RemoveAll(m.target("data")))
		must(b, os.Mkdir(m.target("data"), 0o755))
		m.annotate("lease", "")
		o := m.options()
		o.Poll, o.ProgressInterval = DefaultPoll, 20*time.Millisecond
		var stopped time.Time
		o.Progress = onPhase(moverreport.PhaseCopy, func(p moverreport.Progress) {
			if p.Pass > 0 && p.BytesDone > 50_000_000 && stopped.IsZero() {
				stopped = time.Now()
				m.stop()
			}
		})
		report := Final(context.Background(), o)
		if report.Code != moverreport.CodeOK || report.Passes != 0 {
			b.Fatalf("%+v", report)
		}
		late = append(late, time.Since(stopped).Seconds()-report.Seconds)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(late), "signal-s")
	b.ReportMetric(slices.Max(late), "slowest-signal-s")
}

func noise(r *rand.Rand, size int) []byte {
	var seed [32]byte
	for i := range seed {
		seed[i] = byte(r.IntN(256))
	}
	b := make([]byte, size)
	_, _ = rand.NewChaCha8(seed).Read(b)
	return b
}

// benchmarkFinal copies the member repeatedly. It calls dirty before each pass beside the running member, and before the
// member stops. While the mover waits, files younger than settled count as in use.
func benchmarkFinal(b *testing.B, m *member, settled time.Duration, dirty func(), check func(moverreport.ClaimReport)) {
	var took, ratio []float64
	for b.Loop() {
		m.annotate("lease", "")
		o := m.options()
		o.Refill, o.Settled = true, time.Second
		for range 2 { // the second pass records the files that have settled in between
			dirty()
			time.Sleep(2 * o.Settled)
			if r := First(context.Background(), o); r.Code != moverreport.CodeOK {
				b.Fatalf("%+v", r)
			}
		}
		waits := 0
		var stopped time.Time
		o.Poll, o.Idle, o.Settled = DefaultPoll, time.Second, settled
		o.Progress = onPhase(moverreport.PhaseWait, func(moverreport.Progress) {
			dirty()
			if waits++; waits == 2 {
				stopped = time.Now()
				m.stop()
			}
		})
		r := Final(context.Background(), o)
		if r.Code != moverreport.CodeOK {
			b.Fatalf("%+v", r)
		}
		check(r.Claims[0])
		took, ratio = append(took, time.Since(stopped).Seconds()), append(ratio, r.ForecastSeconds/r.Seconds)
	}
	b.ReportMetric(0, "ns/op") // the passes beside the running member are in it
	b.ReportMetric(median(took), "stop-s")
	b.ReportMetric(median(ratio), "forecast/stop")
}

func median(values []float64) float64 {
	slices.Sort(values)
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}
