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

// bigFile is the default size of the file in GiB. The node needs twice that, and a few GiB more.
const bigFile = 4

// BenchmarkBigFile moves a member with one large, fully allocated file. One percent of it changes each minute. The stop
// lasts as long as reading the file and writing the changed blocks. The benchmark compares the forecast with the time
// from the proof of the stop to the release of the pod. DRYDOCK_BENCH_GIB sets the file's size.
func BenchmarkBigFile(b *testing.B) {
	gib := bigFile
	if size := os.Getenv("DRYDOCK_BENCH_GIB"); size != "" {
		var err error
		if gib, err = strconv.Atoi(size); err != nil || gib <= 0 {
			b.Fatalf("DRYDOCK_BENCH_GIB must be a number above 0, not %q", size)
		}
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
		stopped, held := member.ReleasedAt.Sub(member.StoppedAt.Time).Seconds(), member.ReleasedAt.Sub(member.HeldAt.Time).Seconds()
		b.ReportMetric(whole.Seconds(), "resize-s")
		b.ReportMetric(member.Forecast, "forecast-s")
		b.ReportMetric(stopped, "proof-to-release-s")
		b.ReportMetric(held, "held-s")
		b.ReportMetric(stopped/member.Forecast, "final-pass/forecast")
	}
	b.ReportMetric(0, "ns/op")
}

// bigWorkload returns a load with a file of that many MiB. It writes one MiB at a time, so often that one percent
// changes each minute.
func bigWorkload(mebi int) load {
	change := fmt.Sprintf(
		`while :; do dd if=/dev/urandom of=big bs=1M count=1 seek=$(( (RANDOM * 32768 + RANDOM) %% %d )) conv=notrunc 2> dd.log; `+
			`sleep %.3f; done`,
		mebi,
		6000/float64(mebi),
	)
	return load{fill: fmt.Sprintf("dd if=/dev/urandom of=big bs=1M count=%d", mebi), mebi: mebi + 1024, run: change}
}
