package telemetry

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

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
