//go:build cluster

package e2e

import (
	"slices"
	"testing"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/stage"
)

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
