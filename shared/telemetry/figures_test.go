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

// gauges returns the values of all gauges with floating-point numbers, by name and attributes.
func gauges(t *testing.T, reader *sdkmetric.ManualReader) map[string]float64 {
	t.Helper()
	var collected metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &collected); err != nil {
		t.Fatal(err)
	}
	found := map[string]float64{}
	for _, scope := range collected.ScopeMetrics {
		for _, m := range scope.Metrics {
			data, ok := m.Data.(metricdata.Gauge[float64])
			if !ok {
				continue
			}
			for _, p := range data.DataPoints {
				name := m.Name
				for _, a := range p.Attributes.ToSlice() {
					name += " " + a.Value.AsString()
				}
				found[name] = p.Value
			}
		}
	}
	return found
}

func TestSweepShowsAllFigures(t *testing.T) {
	hop, reader := measured(t)
	if got := gauges(t, reader); len(got) != 0 {
		t.Errorf("before the first sweep: %v", got)
	}
	at := time.Unix(1_800_000_000, 0)
	hop.telemetry.sweep.now = func() time.Time { return at.Add(sweepFresh) }
	figures := Sweep{
		At: at, Operations: map[[2]string]int{{"Resize", "Moving"}: 2}, Overdue: map[string]int{"Resize": 1},
		Oldest: map[string]time.Time{"Resize": time.Unix(1_799_000_000, 0)}, MembersHeld: 3, OldestHold: time.Unix(1_799_500_000, 0),
		Awake: 4, Asleep: 5, SavedMembers: 6, SavedCPU: 1.5, SavedMemory: 2048, RetainedBytes: 4096,
		OwnersPaused: map[string]int{"Sleep": 7}, OldestPause: map[string]time.Time{"Sleep": time.Unix(1_799_900_000, 0)}, DeadLetters: 8,
	}
	hop.SetSweep(figures)
	want := map[string]float64{
		"drydock.operations Resize Moving": 2, "drydock.operations.overdue Resize": 1,
		"drydock.operation.oldest.timestamp Resize": 1_799_000_000, "drydock.members.held": 3, "drydock.member.held.timestamp": 1_799_500_000,
		"drydock.sets awake": 4, "drydock.sets asleep": 5, "drydock.sleep.saved.members": 6, "drydock.sleep.saved.cpu": 1.5,
		"drydock.sleep.saved.memory": 2048, "drydock.volumes.retained": 4096, "drydock.owners.paused Sleep": 7,
		"drydock.owner.paused.timestamp Sleep": 1_799_900_000, "drydock.dead_letters": 8, "drydock.sweep.timestamp": 1_800_000_000,
	}
	if diff := cmp.Diff(want, gauges(t, reader)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	hop.SetSweep(Sweep{At: at})
	if _, shown := gauges(t, reader)["drydock.member.held.timestamp"]; shown {
		t.Error("no member is held, and one has a time")
	}
	var off *Invocation
	off.SetSweep(figures)
}

// TestStaleSweepShowsNothing: another process may have made later sweeps.
func TestStaleSweepShowsNothing(t *testing.T) {
	hop, reader := measured(t)
	hop.SetSweep(Sweep{At: time.Now().Add(-sweepFresh - time.Minute), DeadLetters: 1})
	if got := gauges(t, reader); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

func TestEndedWorkIsRecorded(t *testing.T) {
	hop, reader := measured(t)
	hop.RecordOperation(t.Context(), "Resize", "Succeeded", 100)
	hop.RecordOperation(t.Context(), "Resize", "Failed", 1)
	hop.RecordDowntime(t.Context(), "Resize", 7)
	hop.RecordWake(t.Context(), 11)
	hop.CountCopied(t.Context(), 1<<40)
	for name, want := range map[string]float64{"drydock.member.downtime": 7, "drydock.wake.duration": 11} {
		if got := points(t, reader, name); len(got) != 1 || got[0].Sum != want {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := find(points(t, reader, "drydock.operation.duration"), phaseKey.String("Succeeded")); got.Sum != 100 || got.Count != 1 {
		t.Errorf("%+v", got)
	}
	var off *Invocation
	off.RecordOperation(t.Context(), "Resize", "Failed", 1)
	off.RecordDowntime(t.Context(), "Resize", 7)
	off.RecordWake(t.Context(), 11)
	off.CountCopied(t.Context(), 1)
}

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

// TestGrowthForgetsSetsWithoutObservation: no function is notified of a deleted set.
func TestGrowthForgetsSetsWithoutObservation(t *testing.T) {
	hop, reader := measured(t)
	hop.SetStuckTemplates("n", "web", 2)
	hop.SetStuckTemplates("n", "db", 1)
	if n := stuckSets(t, reader); n != 2 {
		t.Errorf("%d sets are shown, want 2", n)
	}
	g := hop.telemetry.growth
	g.sets[setKey{"n", "db"}] = stuckSet{1, time.Now().Add(-2 * stuckRetention)}
	if n := stuckSets(t, reader); n != 1 {
		t.Errorf("%d sets are shown, want 1", n)
	}
}

func stuckSets(t *testing.T, reader *sdkmetric.ManualReader) int {
	t.Helper()
	var collected metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &collected); err != nil {
		t.Fatal(err)
	}
	for _, scope := range collected.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name == "drydock.growth.stuck" {
				return len(m.Data.(metricdata.Gauge[int64]).DataPoints)
			}
		}
	}
	return 0
}

func TestVolumesShowCountsOfLatestSweep(t *testing.T) {
	hop, reader := measured(t)
	shown := func() map[string]int64 {
		t.Helper()
		var collected metricdata.ResourceMetrics
		if err := reader.Collect(t.Context(), &collected); err != nil {
			t.Fatal(err)
		}
		found := map[string]int64{}
		for _, scope := range collected.ScopeMetrics {
			for _, m := range scope.Metrics {
				if m.Name != "drydock.volumes" {
					continue
				}
				for _, p := range pointsOf(m.Data) {
					found[text(p.Attributes, stateKey)] = p.Value
				}
			}
		}
		return found
	}
	if got := shown(); len(got) != 0 {
		t.Errorf("before the first sweep: %v", got)
	}
	hop.SetProtectedVolumes(ProtectedVolumes{InUse: 4, Retained: 2, Orphaned: 1})
	hop.SetProtectedVolumes(ProtectedVolumes{Retained: 3})
	if diff := cmp.Diff(map[string]int64{"in_use": 0, "retained": 3, "orphaned": 0}, shown()); diff != "" {
		t.Error(diff)
	}
	var off *Invocation
	off.SetProtectedVolumes(ProtectedVolumes{Retained: 1})
}
