package measure

import (
	"strconv"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

func labels(set attribute.Set) string { return set.Encoded(attribute.DefaultEncoder()) }

// collect returns the values of all series, as name{labels}.
func collect(t *testing.T, reader *sdkmetric.ManualReader) map[string]float64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	found := map[string]float64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					found[m.Name+"{"+labels(p.Attributes)+"}"] = float64(p.Value)
				}
			case metricdata.Gauge[int64]:
				for _, p := range data.DataPoints {
					found[m.Name+"{"+labels(p.Attributes)+"}"] = float64(p.Value)
				}
			case metricdata.Gauge[float64]:
				for _, p := range data.DataPoints {
					found[m.Name+"{"+labels(p.Attributes)+"}"] = p.Value
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					found[m.Name+"{"+labels(p.Attributes)+"}"] = p.Sum
				}
			}
		}
	}
	return found
}

func TestMetricsHaveSabliersNames(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	meters, err := New(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("test"))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	until := now.Add(time.Hour).Truncate(time.Second)
	meters.Request(t.Context(), "dynamic", "group")
	meters.Request(t.Context(), "dynamic", "group")
	meters.Record(t.Context(), now, Instance{Name: "shop/web", Group: "shop", Until: until})
	meters.Record(t.Context(), now.Add(time.Second), Instance{Name: "shop/web", Group: "shop", Until: until})
	meters.Record(t.Context(), now.Add(3*time.Second), Instance{Name: "shop/web", Group: "shop", Ready: true, Until: until})
	meters.Record(t.Context(), now.Add(9*time.Second), Instance{Name: "shop/web", Group: "shop", Ready: true, Until: until})
	meters.Record(t.Context(), now, Instance{Name: "shop/old", Group: "lab", Ready: true, Until: now.Add(-time.Hour)})
	found := collect(t, reader)
	for name, want := range map[string]float64{
		"sablier.session.requests{strategy=dynamic,target=group}":            2,
		"sablier.instance.ready.duration{instance=shop/web}":                 3,
		"sablier.session.expires_at_timestamp{group=shop,instance=shop/web}": float64(until.Unix()),
		"sablier.group.active_instances{group=shop}":                         1,
		"sablier.group.locked{group=shop}":                                   1,
		"sablier.group.active_instances{group=lab}":                          0,
		"sablier.group.locked{group=lab}":                                    0,
	} {
		if got, ok := found[name]; !ok || got != want {
			t.Errorf("%s is %v, want %v in %v", name, got, want, found)
		}
	}
	if len(meters.seen) != 1 {
		t.Errorf("a session that is over is remembered: %v", meters.seen)
	}
}

func TestNumberOfSeriesIsLimited(t *testing.T) {
	meters, err := New(sdkmetric.NewMeterProvider().Meter("test"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 * maxInstances {
		meters.Record(t.Context(), time.Now(), Instance{Name: strconv.Itoa(i)})
	}
	if len(meters.seen) > maxInstances {
		t.Errorf("%d sets are told apart", len(meters.seen))
	}
}

func TestNilMetersMeasureNothing(t *testing.T) {
	var meters *Meters
	meters.Request(t.Context(), "poke", "names")
	meters.Record(t.Context(), time.Now(), Instance{})
}
