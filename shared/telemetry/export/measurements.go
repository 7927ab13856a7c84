package export

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"google.golang.org/protobuf/encoding/protowire"
)

// metricExporter sends measurements to a collector.
type metricExporter struct{ to *collector }

func newMetricExporter() (*metricExporter, error) {
	if _, err := oneOf("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "cumulative"); err != nil {
		return nil, err
	}
	to, err := newCollector(metrics)
	return &metricExporter{to}, err
}

// Temporality is cumulative for every instrument.
func (x *metricExporter) Temporality(sdkmetric.InstrumentKind) metricdata.Temporality {
	return metricdata.CumulativeTemporality
}

// Aggregation is the SDK's default.
func (x *metricExporter) Aggregation(kind sdkmetric.InstrumentKind) sdkmetric.Aggregation {
	return sdkmetric.DefaultAggregationSelector(kind)
}

// Export sends the collected measurements.
func (x *metricExporter) Export(ctx context.Context, collected *metricdata.ResourceMetrics) error {
	message, err := metricsMessage(collected)
	return errors.Join(err, x.to.post(ctx, message))
}

// ForceFlush does nothing, because no measurement is held back.
func (x *metricExporter) ForceFlush(context.Context) error { return nil }

// Shutdown closes idle connections.
func (x *metricExporter) Shutdown(context.Context) error {
	x.to.client.CloseIdleConnections()
	return nil
}

// metricsMessage returns an ExportMetricsServiceRequest. It omits metrics without an encoding, and the error names them.
func metricsMessage(collected *metricdata.ResourceMetrics) (message, error) {
	var all message
	var failed error
	all.embed(1, resourceMessage(collected.Resource))
	for _, s := range collected.ScopeMetrics {
		var of message
		of.embed(1, scopeMessage(s.Scope))
		for _, m := range s.Metrics {
			one, err := metricMessage(m)
			if err != nil {
				failed = errors.Join(failed, err)
				continue
			}
			of.embed(2, one)
		}
		of.text(3, s.Scope.SchemaURL)
		all.embed(2, of)
	}
	all.text(3, collected.Resource.SchemaURL())
	var request message
	request.embed(1, all)
	return request, failed
}

func metricMessage(given metricdata.Metrics) (message, error) {
	var m message
	m.text(1, given.Name)
	m.text(2, given.Description)
	m.text(3, given.Unit)
	switch data := given.Data.(type) {
	case metricdata.Gauge[int64]:
		m.embed(5, points(data.DataPoints))
	case metricdata.Gauge[float64]:
		m.embed(5, points(data.DataPoints))
	case metricdata.Sum[int64]:
		m.embed(7, sum(data))
	case metricdata.Sum[float64]:
		m.embed(7, sum(data))
	case metricdata.Histogram[int64]:
		m.embed(9, histogram(data))
	case metricdata.Histogram[float64]:
		m.embed(9, histogram(data))
	default:
		kind := strings.TrimPrefix(fmt.Sprintf("%T", data), "metricdata.")
		return nil, fmt.Errorf("metric %s has type %s, which has no encoding here", given.Name, kind)
	}
	return m, nil
}

// cumulative is AGGREGATION_TEMPORALITY_CUMULATIVE.
const cumulative = 2

func sum[N int64 | float64](s metricdata.Sum[N]) message {
	m := points(s.DataPoints)
	m.varint(2, cumulative)
	m.varint(3, protowire.EncodeBool(s.IsMonotonic))
	return m
}

// points returns the NumberDataPoints of a Gauge or a Sum, field 1 of either.
func points[N int64 | float64](list []metricdata.DataPoint[N]) message {
	var m message
	for _, p := range list {
		var one message
		one.time(2, p.StartTime)
		one.time(3, p.Time)
		if value, ok := any(p.Value).(float64); ok {
			one.double(4, value)
		} else {
			one.fixed64(6, uint64(int64(p.Value))) //nolint:gosec // two's complement, as the wire has it
		}
		one.attributes(7, p.Attributes.ToSlice())
		m.embed(1, one)
	}
	return m
}

func histogram[N int64 | float64](h metricdata.Histogram[N]) message {
	var m message
	for _, p := range h.DataPoints {
		var one, counts, limits message
		for _, n := range p.BucketCounts {
			counts = protowire.AppendFixed64(counts, n)
		}
		for _, b := range p.Bounds {
			limits = protowire.AppendFixed64(limits, math.Float64bits(b))
		}
		one.time(2, p.StartTime)
		one.time(3, p.Time)
		one.fixed64(4, p.Count)
		one.double(5, float64(p.Sum))
		one.bytes(6, counts)
		one.bytes(7, limits)
		one.attributes(9, p.Attributes.ToSlice())
		if least, ok := p.Min.Value(); ok {
			one.double(11, float64(least))
		}
		if most, ok := p.Max.Value(); ok {
			one.double(12, float64(most))
		}
		m.embed(1, one)
	}
	m.varint(2, cumulative)
	return m
}
