package telemetry

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// measured returns a hop and the reader of its measurements.
func measured(t *testing.T) (*Invocation, *sdkmetric.ManualReader) {
	t.Helper()
	reader := sdkmetric.NewManualReader()
	measure, err := New(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter(ScopeName), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, hop := measure.Receive(t.Context(), "cleanup-pod", change(""), nil)
	return hop, reader
}

// series returns the values of a metric in {ordinal}, by namespace/name and the third attribute. It is empty without
// values.
func series(t *testing.T, reader *sdkmetric.ManualReader, name string, third attribute.Key) map[string]int64 {
	t.Helper()
	var collected metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &collected); err != nil {
		t.Fatal(err)
	}
	found := map[string]int64{}
	for _, scope := range collected.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name != name || m.Unit != "{ordinal}" {
				continue
			}
			for _, p := range pointsOf(m.Data) {
				found[text(p.Attributes, "k8s.namespace.name")+"/"+text(p.Attributes, "k8s.statefulset.name")+" "+text(p.Attributes, third)] = p.Value
			}
		}
	}
	return found
}

func pointsOf(data metricdata.Aggregation) []metricdata.DataPoint[int64] {
	if gauge, ok := data.(metricdata.Gauge[int64]); ok {
		return gauge.DataPoints
	}
	return data.(metricdata.Sum[int64]).DataPoints
}

func text(set attribute.Set, key attribute.Key) string {
	value, _ := set.Value(key)
	return value.AsString()
}

func TestGaugeShowsLatestObservation(t *testing.T) {
	hop, reader := measured(t)
	for _, step := range []struct {
		name             string
		pending, running int
		want             map[string]int64
	}{
		{"quiet", 0, 0, map[string]int64{}},
		{"web", 3, 0, map[string]int64{"n/web pending": 3, "n/web running": 0}},
		{"web", 2, 1, map[string]int64{"n/web pending": 2, "n/web running": 1}},
		{"db", 0, 1, map[string]int64{"n/web pending": 2, "n/web running": 1, "n/db pending": 0, "n/db running": 1}},
		{"web", 0, 0, map[string]int64{"n/db pending": 0, "n/db running": 1}},
		{"db", 0, 0, map[string]int64{}},
	} {
		hop.SetRemainingCleanups("n", step.name, step.pending, step.running)
		if diff := cmp.Diff(step.want, series(t, reader, "drydock.cleanup.ordinals", stateKey)); diff != "" {
			t.Errorf("%s has %d and %d (-want +got)\n%s", step.name, step.pending, step.running, diff)
		}
	}
}

func TestFinishedCleanupsAreCountedAndTimed(t *testing.T) {
	hop, reader := measured(t)
	hop.CountFinishedCleanup(t.Context(), "n", "web", "succeeded", 2*time.Second)
	hop.CountFinishedCleanup(t.Context(), "n", "web", "succeeded", 48*time.Hour)
	hop.CountFinishedCleanup(t.Context(), "n", "web", "failed", time.Minute)
	hop.CountFinishedCleanup(t.Context(), "m", "web", "failed", time.Minute)
	want := map[string]int64{"n/web succeeded": 2, "n/web failed": 1, "m/web failed": 1}
	if diff := cmp.Diff(want, series(t, reader, "drydock.cleanup.finished", resultKey)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	took := find(points(t, reader, "drydock.cleanup.duration"), resultKey.String("succeeded"))
	if !slices.Equal(took.Bounds, []float64{1, 5, 15, 60, 300, 900, 3600, 14400, 86400}) ||
		!slices.Equal(took.BucketCounts, []uint64{0, 1, 0, 0, 0, 0, 0, 0, 0, 1}) {
		t.Errorf("bounds %v, counts %v", took.Bounds, took.BucketCounts)
	}
}

// TestNumberOfSetsIsLimited: users who create sets must not be able to create series without limit. A set with nothing
// left to clean up makes room on the gauge.
func TestNumberOfSetsIsLimited(t *testing.T) {
	hop, reader := measured(t)
	for i := range maxSets + 10 {
		name := fmt.Sprintf("web-%d", i)
		hop.SetRemainingCleanups("n", name, 1, 1)
		for _, result := range []string{"succeeded", "failed"} {
			hop.CountFinishedCleanup(t.Context(), "n", name, result, 0)
		}
	}
	shown, counted := series(t, reader, "drydock.cleanup.ordinals", stateKey), series(t, reader, "drydock.cleanup.finished", resultKey)
	if len(shown) != 2*maxSets {
		t.Errorf("the gauge has %d series, want %d", len(shown), 2*maxSets)
	}
	if len(counted) != 2*maxSets+2 || counted["n/other failed"] != 10 || counted["n/web-0 failed"] != 1 {
		t.Errorf("the counter has %d series, %d of them for 10 others", len(counted), counted["n/other failed"])
	}
	if timed := points(t, reader, "drydock.cleanup.duration"); len(timed) != len(counted) {
		t.Errorf("the histogram has %d series, want %d", len(timed), len(counted))
	}
	hop.SetRemainingCleanups("n", "web-0", 0, 0)
	hop.SetRemainingCleanups("n", "late", 7, 0)
	hop.SetRemainingCleanups("n", "web-1", 5, 0)
	shown = series(t, reader, "drydock.cleanup.ordinals", stateKey)
	if len(shown) != 2*maxSets || shown["n/late pending"] != 7 || shown["n/web-1 pending"] != 5 {
		t.Errorf("%d series, %d of late, %d of web-1", len(shown), shown["n/late pending"], shown["n/web-1 pending"])
	}
}

// TestConcurrentCleanups also serves the race detector.
func TestConcurrentCleanups(t *testing.T) {
	hop, reader := measured(t)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			name := fmt.Sprintf("web-%d", i%2)
			for range 100 {
				hop.SetRemainingCleanups("n", name, 1, 0)
				hop.CountFinishedCleanup(t.Context(), "n", name, "succeeded", time.Second)
			}
			series(t, reader, "drydock.cleanup.ordinals", stateKey)
		})
	}
	all.Wait()
	if got := series(t, reader, "drydock.cleanup.finished", resultKey); got["n/web-0 succeeded"] != 400 || got["n/web-1 succeeded"] != 400 {
		t.Errorf("%v", got)
	}
}
