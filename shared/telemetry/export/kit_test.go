package export

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/exemplar"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

// sink is a test's collector.
type sink struct {
	*httptest.Server
	mu      sync.Mutex
	answers []int // statuses for the next posts; 200 after the last one
	header  http.Header
	posts   map[string][][]byte
}

func newSink(t *testing.T, answers ...int) *sink {
	s := &sink{answers: answers, posts: map[string][][]byte{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// ServeHTTP stores the posted body.
func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		if unzipped, err := gzip.NewReader(r.Body); err == nil {
			body = unzipped
		}
	}
	text, _ := io.ReadAll(body)
	s.header = r.Header
	s.posts[r.URL.Path] = append(s.posts[r.URL.Path], text)
	if len(s.answers) > 0 {
		code := s.answers[0]
		s.answers = s.answers[1:]
		w.WriteHeader(code)
	}
}

// at returns the bodies that were posted to the path.
func (s *sink) at(path string) [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.posts[path]
}

var every = []attribute.KeyValue{
	attribute.String("s", "text"), attribute.String("empty", ""), attribute.Bool("b", true), attribute.Bool("no", false),
	attribute.Int64("i", -5), attribute.Int64("zero", 0), attribute.Float64("f", 2.5), attribute.Float64("nought", 0),
	attribute.StringSlice("ss", []string{"a", ""}), attribute.BoolSlice("bs", []bool{true, false}),
	attribute.Int64Slice("is", []int64{-1, 0}), attribute.Float64Slice("fs", []float64{1.5, 0}), attribute.StringSlice("none", []string{}),
}

// someSpans returns spans with every property that a span can have, in two scopes.
func someSpans(t *testing.T) []sdktrace.ReadOnlySpan {
	t.Helper()
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder),
		sdktrace.WithResource(resource.NewWithAttributes("https://schema/1", every...)))
	tracer := provider.Tracer("first", trace.WithInstrumentationVersion("v1"), trace.WithSchemaURL("https://schema/2"),
		trace.WithInstrumentationAttributes(attribute.String("of", "scope")))
	state, _ := trace.ParseTraceState("vendor=1")
	far := trace.NewSpanContext(
		trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled, TraceState: state},
	)
	near := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{3}, SpanID: trace.SpanID{4}})

	ctx, parent := tracer.Start(
		trace.ContextWithRemoteSpanContext(context.Background(), far),
		"parent",
		trace.WithAttributes(every...),
		trace.WithSpanKind(
			trace.SpanKindConsumer,
		),
		trace.WithLinks(trace.Link{SpanContext: near}, trace.Link{SpanContext: far.WithRemote(true), Attributes: every}),
	)
	_, child := tracer.Start(ctx, "child", trace.WithTimestamp(time.Unix(1700000000, 5)), trace.WithSpanKind(trace.SpanKindClient))
	child.AddEvent("happened", trace.WithAttributes(every...))
	child.AddEvent("and then")
	child.SetStatus(codes.Ok, "")
	child.End(trace.WithTimestamp(time.Unix(1700000001, 7)))
	parent.RecordError(errors.New("it broke"))
	parent.SetStatus(codes.Error, "it broke")
	parent.End()
	_, other := provider.Tracer("second").Start(context.Background(), "")
	other.End()
	return recorder.Ended()
}

// observed creates asynchronous instruments of every kind.
func observed(t *testing.T, meter metric.Meter) {
	t.Helper()
	here := metric.WithAttributes(attribute.String("drydock.state", "pending"))
	whole := metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error { o.Observe(3, here); return nil })
	part := metric.WithFloat64Callback(func(_ context.Context, o metric.Float64Observer) error { o.Observe(0.5, here); return nil })
	var failed [6]error
	_, failed[0] = meter.Int64ObservableGauge("seen.gauge", metric.WithUnit("{ordinal}"), whole)
	_, failed[1] = meter.Int64ObservableCounter("seen.counter", metric.WithUnit("{ordinal}"), whole)
	_, failed[2] = meter.Int64ObservableUpDownCounter("seen.level", metric.WithUnit("{ordinal}"), whole)
	_, failed[3] = meter.Float64ObservableGauge("seen.part.gauge", metric.WithUnit("s"), part)
	_, failed[4] = meter.Float64ObservableCounter("seen.part.counter", metric.WithUnit("s"), part)
	_, failed[5] = meter.Float64ObservableUpDownCounter("seen.part.level", metric.WithUnit("s"), part)
	if err := errors.Join(failed[:]...); err != nil {
		t.Fatal(err)
	}
}

// someMetrics returns measurements of every kind with an encoding.
func someMetrics(t *testing.T, readers ...sdkmetric.Reader) *metricdata.ResourceMetrics {
	t.Helper()
	manual := sdkmetric.NewManualReader()
	options := []sdkmetric.Option{sdkmetric.WithReader(manual), sdkmetric.WithExemplarFilter(exemplar.AlwaysOffFilter),
		sdkmetric.WithResource(
			resource.NewWithAttributes("https://schema/1", attribute.String("service.name", "try"), attribute.String("quoted", "a\"b\\c\nd")),
		)}
	for _, r := range readers {
		options = append(options, sdkmetric.WithReader(r))
	}
	provider := sdkmetric.NewMeterProvider(options...)
	meter := provider.Meter("first", metric.WithInstrumentationVersion("v1"), metric.WithSchemaURL("https://schema/2"))
	ctx := t.Context()
	some := metric.WithAttributes(attribute.String("http.route", "/"), attribute.Int("code", 204), attribute.String("quoted", "a\"b\\c\nd"))

	took, _ := meter.Float64Histogram("http.server.request.duration", metric.WithUnit("s"), metric.WithDescription("How long.\nIn seconds."),
		metric.WithExplicitBucketBoundaries(0.005, 0.5, 10))
	for _, v := range []float64{0, 0.005, 0.4, 99} {
		took.Record(ctx, v, some)
	}
	took.Record(ctx, 1)
	sizes, _ := meter.Int64Histogram("sizes", metric.WithUnit("By"))
	sizes.Record(ctx, -7)
	events, _ := meter.Int64Counter("drydock.engine.events", metric.WithUnit("{event}"), metric.WithDescription("Events"))
	events.Add(ctx, 0)
	events.Add(ctx, 3, some)
	seconds, _ := meter.Float64Counter("cpu.time", metric.WithUnit("s"))
	seconds.Add(ctx, 1e21)
	room, _ := meter.Int64UpDownCounter("room")
	room.Add(ctx, -4, metric.WithAttributes(attribute.String("a.b", "1"), attribute.String("a_b", "2")))
	share, _ := provider.Meter("second").Float64Gauge("share", metric.WithUnit("1"))
	share.Record(ctx, math.Inf(1))
	limit, _ := provider.Meter("second").Int64Gauge("limit", metric.WithUnit("%"))
	limit.Record(ctx, 100)
	observed(t, meter)

	collected := &metricdata.ResourceMetrics{}
	if err := manual.Collect(ctx, collected); err != nil {
		t.Fatal(err)
	}
	return collected
}
