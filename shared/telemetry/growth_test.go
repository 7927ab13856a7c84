package telemetry

import (
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

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
