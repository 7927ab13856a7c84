package export

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// post sends spans to the collector that the environment names.
func post(t *testing.T) error {
	t.Helper()
	exporter, err := newSpanExporter()
	if err != nil {
		t.Fatal(err)
	}
	defer exporter.Shutdown(context.WithoutCancel(t.Context())) // nothing is left to send
	return exporter.ExportSpans(t.Context(), someSpans(t))
}

func TestSpansReachTheCollector(t *testing.T) {
	collector := newSink(t)
	environment(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": collector.URL})
	if err := post(t); err != nil {
		t.Fatal(err)
	}
	request := &collectortrace.ExportTraceServiceRequest{}
	if err := proto.Unmarshal(collector.at("/v1/traces")[0], request); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, scope := range request.GetResourceSpans()[0].GetScopeSpans() {
		for _, span := range scope.GetSpans() {
			names = append(names, scope.GetScope().GetName()+"/"+span.GetName())
		}
	}
	for _, want := range []string{"first/parent", "first/child", "second/"} {
		if !strings.Contains(strings.Join(names, " ")+" ", want+" ") {
			t.Errorf("the collector got %q, without %s", names, want)
		}
	}
}

func TestMetricsReachTheCollector(t *testing.T) {
	collector := newSink(t)
	environment(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": collector.URL})
	exporter, err := newMetricExporter()
	if err != nil {
		t.Fatal(err)
	}
	if err := exporter.Export(t.Context(), someMetrics(t)); err != nil {
		t.Fatal(err)
	}
	request := &collectormetrics.ExportMetricsServiceRequest{}
	if err := proto.Unmarshal(collector.at("/v1/metrics")[0], request); err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, scope := range request.GetResourceMetrics()[0].GetScopeMetrics() {
		count += len(scope.GetMetrics())
	}
	if count != 13 {
		t.Errorf("the collector got %d metrics: %v", count, request)
	}
}

func TestExportIsRetriedWhileTheCollectorIsBusy(t *testing.T) {
	for name, row := range map[string]struct {
		answers []int
		want    string
		posts   int
	}{
		"accepted":                    {nil, "", 1},
		"accepted at the third try":   {[]int{503, 429}, "", 3},
		"a proxy is broken":           {[]int{502, 504}, "", 3},
		"refused":                     {[]int{400}, "400", 1},
		"an error of the collector":   {[]int{500}, "500", 1},
		"the path leads to something": {[]int{404}, "404", 1},
	} {
		t.Run(name, func(t *testing.T) {
			collector := newSink(t, row.answers...)
			environment(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": collector.URL})
			err := post(t)
			if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
				t.Errorf("error %v, want %q", err, row.want)
			}
			if got := len(collector.at("/v1/traces")); got != row.posts {
				t.Errorf("%d posts, want %d", got, row.posts)
			}
		})
	}
}

func TestExportHasTheHeadersOfTheEnvironment(t *testing.T) {
	for _, compression := range []string{"none", "gzip"} {
		collector := newSink(t)
		environment(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": collector.URL, "OTEL_EXPORTER_OTLP_COMPRESSION": compression,
			"OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20x, tenant = a=b ,"})
		if err := post(t); err != nil {
			t.Fatal(err)
		}
		for key, want := range map[string]string{"Content-Type": "application/x-protobuf", "Authorization": "Bearer x", "Tenant": "a=b"} {
			if got := collector.header.Get(key); got != want {
				t.Errorf("compression %s: %s is %q, want %q", compression, key, got, want)
			}
		}
		if got := collector.header.Get("Content-Encoding"); (got == "gzip") != (compression == "gzip") {
			t.Errorf("compression %s: content encoding %q", compression, got)
		}
	}
}

func TestExportEndsWithItsTimeout(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"no answer": func(_ http.ResponseWriter, r *http.Request) { _, _ = io.ReadAll(r.Body); <-r.Context().Done() },
		"retry after an hour": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusServiceUnavailable)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(handler)
			defer s.Close()
			environment(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": s.URL, "OTEL_EXPORTER_OTLP_TIMEOUT": "50"})
			start := time.Now()
			if err := post(t); err == nil || time.Since(start) > 5*time.Second {
				t.Errorf("ended after %s with %v, want an error after 50 ms", time.Since(start), err)
			}
		})
	}
}

// TestRejectedSpansAreReported: a collector may accept a request in part.
func TestRejectedSpansAreReported(t *testing.T) {
	answer, err := proto.Marshal(&collectortrace.ExportTraceServiceResponse{
		PartialSuccess: &collectortrace.ExportTracePartialSuccess{RejectedSpans: 3, ErrorMessage: "too old"}})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-protobuf")
		_, _ = w.Write(answer)
	}))
	defer s.Close()
	environment(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": s.URL})
	reported := ""
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { reported += err.Error() }))
	if err := post(t); err != nil {
		reported += err.Error()
	}
	if !strings.Contains(reported, "too old") {
		t.Errorf("reported %q, want the collector's reason", reported)
	}
}

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
