package export

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
)

// TestSpansEqualOfficialExporter compares with the official exporter, which is too large for a function's image.
func TestSpansEqualOfficialExporter(t *testing.T) {
	environment(t, nil)
	spans, their := someSpans(t), newSink(t)
	official, err := otlptracehttp.New(t.Context(), otlptracehttp.WithEndpointURL(their.URL+"/v1/traces"))
	if err != nil {
		t.Fatal(err)
	}
	if err := official.ExportSpans(t.Context(), spans); err != nil {
		t.Fatal(err)
	}
	ours := newSink(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", ours.URL)
	exporter, err := newSpanExporter()
	if err != nil {
		t.Fatal(err)
	}
	if err := exporter.ExportSpans(t.Context(), spans); err != nil {
		t.Fatal(err)
	}
	want, got := traceRequest(t, their), traceRequest(t, ours)
	if len(want.GetResourceSpans()) != 1 || len(want.GetResourceSpans()[0].GetScopeSpans()) != 2 {
		t.Fatalf("the official exporter sent %v", want)
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("-official +ours:\n%s", diff)
	}
}

func traceRequest(t *testing.T, s *sink) *collectortrace.ExportTraceServiceRequest {
	t.Helper()
	request := &collectortrace.ExportTraceServiceRequest{}
	if err := proto.Unmarshal(s.at("/v1/traces")[0], request); err != nil {
		t.Fatal(err)
	}
	for _, r := range request.GetResourceSpans() {
		slices.SortFunc(r.ScopeSpans, func(a, b *tracepb.ScopeSpans) int {
			return strings.Compare(a.GetScope().GetName(), b.GetScope().GetName())
		})
	}
	return request
}

func TestMetricsEqualOfficialExporter(t *testing.T) {
	environment(t, nil)
	collected, their := someMetrics(t), newSink(t)
	official, err := otlpmetrichttp.New(t.Context(), otlpmetrichttp.WithEndpointURL(their.URL+"/v1/metrics"))
	if err != nil {
		t.Fatal(err)
	}
	if err := official.Export(t.Context(), collected); err != nil {
		t.Fatal(err)
	}
	ours := newSink(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", ours.URL)
	exporter, err := newMetricExporter()
	if err != nil {
		t.Fatal(err)
	}
	if err := exporter.Export(t.Context(), collected); err != nil {
		t.Fatal(err)
	}
	want, got := metricsRequest(t, their), metricsRequest(t, ours)
	scopes, metrics := want.GetResourceMetrics()[0].GetScopeMetrics(), 0
	for _, scope := range scopes {
		metrics += len(scope.GetMetrics())
	}
	if len(scopes) != 2 || metrics != 13 {
		t.Fatalf("the official exporter sent %v", want)
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("-official +ours:\n%s", diff)
	}
}

func metricsRequest(t *testing.T, s *sink) *collectormetrics.ExportMetricsServiceRequest {
	t.Helper()
	request := &collectormetrics.ExportMetricsServiceRequest{}
	if err := proto.Unmarshal(s.at("/v1/metrics")[0], request); err != nil {
		t.Fatal(err)
	}
	return request
}

// TestMetricWithoutEncodingIsAnError: the other metrics are sent nevertheless.
func TestMetricWithoutEncodingIsAnError(t *testing.T) {
	collected := someMetrics(t)
	first := collected.ScopeMetrics[0].Metrics
	first[0].Data = metricdata.ExponentialHistogram[int64]{}
	body, err := metricsMessage(collected)
	if err == nil || !strings.Contains(err.Error(), first[0].Name) {
		t.Errorf("got %v, want an error that names %s", err, first[0].Name)
	}
	request := &collectormetrics.ExportMetricsServiceRequest{}
	if err := proto.Unmarshal(body, request); err != nil || len(request.GetResourceMetrics()[0].GetScopeMetrics()[0].GetMetrics()) != len(first)-1 {
		t.Errorf("%v, %v", request, err)
	}
}
