// Package telemetry follows events through the functions. Each event has one span and one measurement. W3C trace context joins
// the spans of one operation in one trace, whatever events woke the functions.
//
//	in    the header traceparent of the request, the CloudEvents extension traceparent of the event
//	out   the extension on replies and on sent events; sent events also have the header
//	between events   the status of an operation stores its trace
//
// It uses only OpenTelemetry's interfaces. Package export provides an SDK for them, as the environment configures it. With
// tracing off there is no tracer, and nothing is added to sent or stored data.
package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	semconv "go.opentelemetry.io/otel/semconv/v1.40.0"
	"go.opentelemetry.io/otel/trace"
)

// ScopeName is the instrumentation scope of every span and measurement.
const ScopeName = "drydock.dev"

// Telemetry holds the instruments and the tracer of a process.
type Telemetry struct {
	tracer     trace.Tracer // nil if tracing is off
	handled    metric.Float64Histogram
	requests   metric.Float64Histogram
	cleanups   *cleanups
	volumes    *volumes
	growth     *growth
	operations *operations
	sweep      *sweep

	warm      atomic.Bool // true after the first event
	types     *labelLimit // of events
	templates *labelLimit // of the paths of API calls
}

// Off returns a Telemetry that measures nothing.
func Off() *Telemetry {
	t, err := New(noop.NewMeterProvider().Meter(ScopeName), nil)
	if err != nil {
		panic(err) // unreachable: the no-op meter accepts every instrument
	}
	return t
}

// New returns a Telemetry that measures with the meter, and traces with the tracer unless it is nil.
func New(meter metric.Meter, tracer trace.Tracer) (*Telemetry, error) {
	t := &Telemetry{tracer: tracer, types: newLabelLimit(maxTypes), templates: newLabelLimit(maxTemplates)}
	return t, t.instrument(meter)
}

// Tracing reports whether there are spans.
func (t *Telemetry) Tracing() bool { return t.tracer != nil }

// requestBounds are the bounds of the semantic conventions for HTTP. Knative uses them for its histograms, too
// (knative.dev/eventing pkg/broker/filter/filter_handler.go), so the histograms can be compared.
var requestBounds = metric.WithExplicitBucketBoundaries(0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)

// Attributes outside of the semantic conventions.
const (
	// eventTypeKey is Knative's name in its metrics (pkg/observability/key.go). The semantic conventions for spans use
	// cloudevents.event_type instead.
	eventTypeKey = attribute.Key("cloudevents.type")

	outcomeKey    = attribute.Key("drydock.outcome")
	planKindKey   = attribute.Key("drydock.plan.kind")
	planReasonKey = attribute.Key("drydock.plan.reason")
	operationKey  = attribute.Key("drydock.operation")
)

const (
	// maxTypes limits the number of event types with separate series, because senders choose their types.
	maxTypes = 64
	// maxTemplates limits the number of paths with separate series. A path contains the version of a set's owner, which the author of the
	// set chooses.
	maxTemplates = 300
)

// noType stands for the type of a request without a valid event.
const noType = "none"

func (t *Telemetry) instrument(meter metric.Meter) error {
	var err error
	t.handled, err = meter.Float64Histogram("http.server.request.duration", requestBounds, metric.WithUnit("s"),
		metric.WithDescription("Duration of HTTP server requests: the events that a function answered."))
	if err != nil {
		return fmt.Errorf("creating the histogram of events: %w", err)
	}
	t.requests, err = meter.Float64Histogram("http.client.request.duration", requestBounds, metric.WithUnit("s"),
		metric.WithDescription("Duration of HTTP client requests: the calls to the Kubernetes API."))
	if err != nil {
		return fmt.Errorf("creating the histogram of API calls: %w", err)
	}
	if t.cleanups, err = newCleanups(meter); err != nil {
		return err
	}
	if t.volumes, err = newVolumes(meter); err != nil {
		return err
	}
	if t.growth, err = newGrowth(meter); err != nil {
		return err
	}
	if t.operations, err = newOperations(meter); err != nil {
		return err
	}
	t.sweep, err = newSweep(meter)
	return err
}

// Result is the result of handling an event.
type Result struct {
	// Code is the HTTP status of the answer. Outcome is the result in one word.
	Code    int
	Outcome string
	Err     error
}

// RecordAnswer records an event of the function. The type is "" for a request without a valid event.
func (t *Telemetry) RecordAnswer(ctx context.Context, function, method, eventType string, r Result, took time.Duration) {
	attributes := []attribute.KeyValue{
		semconv.FaaSName(function), eventTypeKey.String(t.typeLabel(eventType)), outcomeKey.String(r.Outcome),
		methodAttribute(method), semconv.URLScheme("http"), semconv.HTTPRoute("/"), semconv.HTTPResponseStatusCode(r.Code),
	}
	if r.Code >= http.StatusInternalServerError {
		attributes = append(attributes, semconv.ErrorTypeKey.String(strconv.Itoa(r.Code)))
	}
	t.handled.Record(ctx, took.Seconds(), metric.WithAttributes(attributes...))
}

func (t *Telemetry) typeLabel(eventType string) string {
	if eventType == "" {
		return noType
	}
	return t.types.of(eventType)
}

// methodAttribute returns the method, or a common value for unknown methods, as the semantic conventions demand.
func methodAttribute(method string) attribute.KeyValue {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodConnect, http.MethodOptions, http.MethodTrace:
		return semconv.HTTPRequestMethodKey.String(method)
	}
	return semconv.HTTPRequestMethodOther
}

// otherValue stands for every value of a label beyond its limit.
const otherValue = "other"

// maxLabel limits the length of a value, in bytes. Prometheus can reject a whole scrape for one long value.
const maxLabel = 200

// labelLimit limits the values of a label that other users choose, because each value makes series that never end.
type labelLimit struct {
	most  int // values, without otherValue
	mu    sync.Mutex
	known map[string]bool
}

func newLabelLimit(most int) *labelLimit { return &labelLimit{most: most, known: map[string]bool{}} }

// of returns the value, or otherValue if it is unsuitable or there are too many already. A value that is not UTF-8 would make every later
// scrape and export fail.
func (l *labelLimit) of(value string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.known[value]:
		return value
	case len(l.known) >= l.most || len(value) > maxLabel || !utf8.ValidString(value):
		return otherValue
	}
	l.known[value] = true
	return value
}

// LogHandler adds the event's span to each log line, under OpenTelemetry's names for logs in other formats (trace_id,
// span_id). A line before the start of the span has neither, because its trace is not known yet.
func LogHandler(next slog.Handler) slog.Handler { return logHandler{next} }

type logHandler struct{ slog.Handler }

// Handle writes the line.
func (h logHandler) Handle(ctx context.Context, line slog.Record) error {
	at := trace.SpanContextFromContext(ctx)
	if hop := From(ctx); hop != nil {
		at = hop.startedSpan()
	}
	if at.IsValid() {
		line = line.Clone()
		line.AddAttrs(slog.String("trace_id", at.TraceID().String()), slog.String("span_id", at.SpanID().String()))
	}
	return h.Handler.Handle(ctx, line)
}

// WithAttrs wraps the handler with the attributes.
func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup wraps the handler with the group.
func (h logHandler) WithGroup(name string) slog.Handler { return logHandler{h.Handler.WithGroup(name)} }
