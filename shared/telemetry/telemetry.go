// Package telemetry follows events through the functions: one span and one measurement an event, and the W3C trace
// context that joins the spans of one operation to one trace, whatever woke whom.
//
//	in    the header traceparent of the request, the CloudEvents extension traceparent of the event
//	out   the extension on replies and on events that are sent, which have the header, too
//	between events   the status of an operation holds the trace that it began
//
// It knows OpenTelemetry's interfaces only. Package export puts an SDK behind them, as the environment says; with tracing
// off there is no tracer at all, and nothing that is sent or stored gets a byte more.
package telemetry

import (
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
)

// ScopeName is the instrumentation scope of every span and measurement.
const ScopeName = "drydock.dev"

// Telemetry is what a process measures its functions with.
type Telemetry struct {
	tracer   trace.Tracer // nil: tracing is off
	handled  metric.Float64Histogram
	requests metric.Float64Histogram
	cleanups *cleanups
	volumes  *volumes
	growth   *growth

	warm  atomic.Bool // an event was received before
	mu    sync.Mutex
	types map[string]bool // see typeLabel
}

// Off measures nothing.
func Off() *Telemetry {
	t, err := New(noop.NewMeterProvider().Meter(ScopeName), nil)
	if err != nil {
		panic(err) // unreachable: the meter that does nothing takes everything
	}
	return t
}

// New measures with the meter, and traces with the tracer unless it is nil.
func New(meter metric.Meter, tracer trace.Tracer) (*Telemetry, error) {
	t := &Telemetry{tracer: tracer, types: map[string]bool{}}
	return t, t.instrument(meter)
}

// Tracing reports whether spans are made.
func (t *Telemetry) Tracing() bool { return t.tracer != nil }
