//go:build cluster

package e2e

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/stage"
)

// bigFile is the file's size in GiB where the environment does not say. The node needs twice that, and a few GiB more.
const bigFile = 4

// BenchmarkBigFile moves a member with one big file, fully allocated, of which one percent is written to each minute. The stop is bounded by
// reading the file and writing the blocks that differ. It compares the forecast with the time from the stop to the release of the pod.
// DRYDOCK_BENCH_GIB sets the file's size.
func BenchmarkBigFile(b *testing.B) {
	gib, err := strconv.Atoi(os.Getenv("DRYDOCK_BENCH_GIB"))
	if err != nil {
		gib = bigFile
	}
	for b.Loop() {
		b.StopTimer()
		s := stage.New(b)
		s.Patience = 30 * time.Minute
		set := bigWorkload(gib << 10).set()
		set.Annotations[api.ResizeMethodAnnotation] = string(api.MethodCopy)
		s.CreateSet(set)
		drydock(b, s)
		b.StartTimer()
		whole := s.Resize(b, quantity(gib<<10+2048))
		member := s.Status("web").Member(0)
		stopped, held := member.Released.Sub(member.Stopped.Time).Seconds(), member.Released.Sub(member.Held.Time).Seconds()
		b.ReportMetric(whole.Seconds(), "resize-s")
		b.ReportMetric(member.Forecast, "forecast-s")
		b.ReportMetric(stopped, "final-pass-s")
		b.ReportMetric(held, "held-s")
		b.ReportMetric(stopped/member.Forecast, "final-pass/forecast")
	}
	b.ReportMetric(0, "ns/op")
}

// bigWorkload writes one MiB somewhere in a file of that many, as often as makes one percent of it a minute.
func bigWorkload(mebi int) load {
	change := fmt.Sprintf(`while :; do dd if=/dev/urandom of=big bs=1M count=1 seek=$(( (RANDOM * 32768 + RANDOM) %% %d )) conv=notrunc 2> dd.log; `+
		`sleep %.3f; done`, mebi, 6000/float64(mebi))
	return load{fill: fmt.Sprintf("dd if=/dev/urandom of=big bs=1M count=%d", mebi), mebi: mebi + 1024, run: change}
}
