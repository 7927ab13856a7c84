//go:build cluster

package e2e

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

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

// fillDevice writes once to the beginning of the device and near its end, and prints that it has finished.
const fillDevice = `if ! head -c 6 /dev/data | grep -q filled; then
  dd if=/dev/urandom of=/dev/data bs=1M count=20 seek=1 conv=notrunc 2>/dev/null &&
     dd if=/dev/urandom of=/dev/data bs=1M count=3 seek=60 conv=notrunc 2>/dev/null
  echo filled | dd of=/dev/data conv=notrunc,fsync 2>/dev/null
fi; touch /tmp/filled; trap exit TERM; while :; do sleep 1 & wait; done`

// TestBlockVolumeKeepsEveryByte: pods without root rights write to block devices.
// Invariants: I1.
func TestBlockVolumeKeepsEveryByte(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	set := stage.Workload("64Mi")
	set.Spec.VolumeClaimTemplates[0].Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock)
	db := &set.Spec.Template.Spec.Containers[0]
	db.VolumeMounts, db.VolumeDevices = nil, []corev1.VolumeDevice{{Name: "data", DevicePath: "/dev/data"}}
	stage.RunScript(db, "/tmp", fillDevice)
	s.CreateSet(set)
	s.AwaitReady(t)
	sums := func() (both [2]string) {
		for i, pod := range []string{"web-0", "web-1"} {
			both[i] = s.Exec(t, pod, "head -c 67108864 /dev/data | sha256sum")
		}
		return both
	}
	before := sums()
	drydock(t, s)
	s.Annotate("web", map[string]string{api.ResizeAnnotation: "data=96Mi"})
	if status := s.AwaitEnd(t); status.Phase != api.Succeeded {
		t.Fatalf("%s %s: %s", status.Phase, status.Reason, status.Message)
	}
	s.AwaitReady(t)
	if after := sums(); after != before {
		t.Errorf("the data changed: %v, it was %v", after, before)
	}
	if size := s.Exec(t, "web-0", "tail -c +1 /dev/data | wc -c"); size != "100663296\n" && size != "100663296" {
		t.Errorf("the device has %q bytes", size)
	}
	s.ExpectNothingLeft(t)
}

// atRest is the number of sets that take turns, so that the data of each is at rest when its turn comes.
const atRest = 8

// BenchmarkAddedDowntime compares the stop of a member in a resize with a restart of the same pod just before. An
// iteration is such a pair. The downtime that a resize adds is the difference within a pair.
func BenchmarkAddedDowntime(b *testing.B) {
	for _, class := range []string{stage.Class, stage.SlowClass} {
		b.Run(class, func(b *testing.B) { addedDowntime(b, class) })
	}
}

func addedDowntime(b *testing.B, class string) {
	l := load{name: class, fill: `i=0; while [ $i -lt 500 ]; do head -c 100000 /dev/urandom > $i; i=$((i + 1)); done`, mebi: 128}
	var sets []*steady
	for range atRest {
		s := stage.New(b)
		s.Patience = 5 * time.Minute
		set := l.set()
		set.Spec.VolumeClaimTemplates[0].Spec.StorageClassName = &class
		set.Annotations[api.ResizeMethodAnnotation] = string(api.MethodCopy)
		s.CreateSet(set)
		drydock(b, s)
		sets = append(sets, &steady{load: l, Stage: s, since: time.Now()})
	}
	b.ResetTimer()
	for turn := 0; b.Loop(); turn++ {
		sets[turn%atRest].measure(b)
	}
	b.ReportMetric(0, "ns/op")
	var down, restart, added []float64
	for _, r := range sets {
		down, restart = append(down, r.down...), append(restart, r.restart...)
		for i := range r.down {
			added = append(added, r.down[i]-r.restart[i])
		}
	}
	slices.Sort(added)
	b.Logf("added, in seconds: %.1f", added)
	b.ReportMetric(median(down), "downtime-s")
	b.ReportMetric(median(restart), "restart-s")
	b.ReportMetric(median(added), "added-s")
	b.ReportMetric(added[len(added)*9/10], "added-p90-s")
}
