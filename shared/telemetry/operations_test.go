package telemetry

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
