package export

import (
	"context"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// deadlines stores the deadlines of exports.
type deadlines struct{ left []time.Duration }

func (d *deadlines) store(ctx context.Context) error {
	at, _ := ctx.Deadline()
	d.left = append(d.left, time.Until(at))
	return nil
}

type spansOf struct {
	sdktrace.SpanExporter
	*deadlines
}

func (s spansOf) ExportSpans(ctx context.Context, _ []sdktrace.ReadOnlySpan) error {
	return s.store(ctx)
}

type metricsOf struct {
	sdkmetric.Exporter
	*deadlines
}

func (m metricsOf) Export(ctx context.Context, _ *metricdata.ResourceMetrics) error {
	return m.store(ctx)
}

// TestTimeoutLimitsAllTriesOfAnExport: the official exporters limit each try only, and OTLP's variable means the whole export.
func TestTimeoutLimitsAllTriesOfAnExport(t *testing.T) {
	d := &deadlines{}
	if err := (limitedSpans{spansOf{nil, d}, time.Hour}).ExportSpans(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := (limitedMetrics{metricsOf{nil, d}, time.Hour}).Export(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	for _, left := range d.left {
		if left <= 0 || left > time.Hour {
			t.Errorf("%s are left", left)
		}
	}
	if len(d.left) != 2 {
		t.Errorf("%d exports", len(d.left))
	}
}
