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
	"sync/atomic"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
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
