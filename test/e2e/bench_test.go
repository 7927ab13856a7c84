//go:build cluster

package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/test/kit/stage"
)

// load is a pod with data. It is ready and ends without delay.
type load struct {
	name string
	fill string // a script that creates the data in the working folder
	mebi int    // size of the volume
	run  string // a script that runs in parallel; empty for none
}

// set returns a set with one replica.
func (l load) set() *appsv1.StatefulSet {
	set := stage.Workload(fmt.Sprintf("%dMi", l.mebi))
	set.Spec.Replicas = ptr.To[int32](1)
	beside := ""
	if l.run != "" {
		beside = "(" + l.run + ") & "
	}
	stage.RunScript(&set.Spec.Template.Spec.Containers[0], "/data",
		"cd /data && if [ ! -e filled ]; then "+l.fill+"; sync; touch filled; fi; "+
			beside+"trap exit TERM; while :; do sleep 1 & wait $!; done")
	return set
}

// settling is the time without changes after which the mover trusts the first copy (two minutes, mover.DefaultSettled),
// with some seconds for clocks and messages.
const settling = 125 * time.Second

// steady is a load on its stage.
type steady struct {
	load
	*stage.Stage
	since         time.Time // of the data's latest change
	down, restart []float64
}

// measure restarts the pod, and then resizes its volume.
func (r *steady) measure(b *testing.B) {
	b.StopTimer()
	<-time.After(time.Until(r.since.Add(settling)))
	b.StartTimer()
	r.restart = append(r.restart, outage(b, r.Stage, 1, func() { restartPods(b, r.Stage) }).Seconds())
	r.mebi += 64
	r.down = append(r.down, outage(b, r.Stage, 1, func() { r.Resize(b, quantity(r.mebi)) }).Seconds())
	r.since = time.Now()
	b.Logf("%s: restart %.1f s, down %.1f s: %s", r.name, r.restart[len(r.restart)-1], r.down[len(r.down)-1], r.clock())
}

// clock returns the record's times of the member, in seconds since it was stopped.
func (r *steady) clock() string {
	status, text := r.Status("web"), ""
	member := status.Member(0)
	for _, at := range []struct {
		what string
		time *metav1.Time
	}{{"asked", &status.Started}, {"told to stop", member.HeldAt}, {"stopped", member.StoppedAt}, {"released", member.ReleasedAt}, {"ready",
		member.ReadyAt}} {
		if at.time != nil && member.HeldAt != nil {
			text += fmt.Sprintf(" %s %.0f,", at.what, at.time.Sub(member.HeldAt.Time).Seconds())
		}
	}
	return text
}

// BenchmarkRequests counts the API requests of drydock-standalone for one resize of one claim, by method.
func BenchmarkRequests(b *testing.B) {
	for _, method := range []struct{ name, class string }{{"copy", stage.Class}, {"expand", stage.GrowingClass}} {
		b.Run(method.name, func(b *testing.B) {
			s := stage.New(b)
			s.CreateSet(small(method.class))
			api := newProxy(b, s)
			drydock(b, api.Stage)
			api.quiet()
			var writes, reads, watches []float64
			for size := 160; b.Loop(); size += 32 {
				api.Reset()
				s.Resize(b, quantity(size))
				b.StopTimer()
				api.quiet() // the work after the end: old volumes are released, claims are unlinked
				b.StartTimer()
				n := api.counts()
				writes, reads, watches = append(writes, n["write"]), append(reads, n["read"]), append(watches, n["watch"])
				b.Logf("%v", n)
			}
			b.ReportMetric(median(writes), "writes")
			b.ReportMetric(median(reads), "reads")
			b.ReportMetric(median(watches), "watches-begun")
		})
	}
}

// BenchmarkFirstAct measures the time from a request to Drydock's first write.
func BenchmarkFirstAct(b *testing.B) {
	const tries = 5 // an iteration
	s := stage.New(b)
	s.CreateSet(small(stage.GrowingClass))
	api := newProxy(b, s)
	drydock(b, api.Stage)
	api.quiet()
	var took []float64
	size := 160
	for b.Loop() {
		for range tries {
			api.Reset()
			began := time.Now()
			s.Resize(b, quantity(size))
			took = append(took, api.firstWrite().Sub(began).Seconds()*1000)
			size += 32
			b.StopTimer()
			api.quiet()
			b.StartTimer()
		}
	}
	slices.Sort(took)
	b.Logf("ms: %.0f", took)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(took), "p50-ms")
	b.ReportMetric(took[len(took)-1], "max-ms")
}

// small returns a set with one replica and a few bytes of data.
func small(class string) *appsv1.StatefulSet {
	set := load{fill: "echo row > file", mebi: 64}.set()
	set.Spec.VolumeClaimTemplates[0].Spec.StorageClassName = &class
	return set
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}
