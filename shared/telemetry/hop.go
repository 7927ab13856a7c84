package telemetry

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.40.0"
	"go.opentelemetry.io/otel/trace"
)

// Hop is one event on its way through a function.
//
// Which trace its span belongs to is known only after the objects were read: the event may be anybody's, as the end of a
// Job, and the operation that it is about has a trace already. So the span is not started when the event comes but when
// it is first needed, with the time at which the event came.
type Hop struct {
	telemetry *Telemetry
	function  string
	event     event.Event
	received  time.Time
	cold      bool
	tells     string // the operation that the event tells of; empty for none

	mu     sync.Mutex
	parent trace.SpanContext
	links  []trace.SpanContext
	joined bool                 // in an operation's trace
	root   bool                 // in a trace of its own
	about  []attribute.KeyValue // until there is a span
	span   trace.Span           // nil: not started
}

type hopKey struct{}

// Receive begins the event's way through the function. The header is that of the request, nil if there was none. The
// context returned leads every part of the work to the hop.
func (t *Telemetry) Receive(ctx context.Context, function string, e event.Event, header http.Header) (context.Context, *Hop) {
	h := &Hop{telemetry: t, function: function, event: e, received: time.Now(), cold: !t.warm.Swap(true)}
	if t.Tracing() {
		h.parent, h.links = lineage(read(propagation.HeaderCarrier(header)), read(extension{&e}))
	}
	return context.WithValue(ctx, hopKey{}, h), h
}

// From returns the hop that the context belongs to, or nil. A nil hop takes every call and does nothing.
func From(ctx context.Context) *Hop {
	h, _ := ctx.Value(hopKey{}).(*Hop)
	return h
}

func (h *Hop) traced() bool { return h != nil && h.telemetry.Tracing() }

// Join says which operation the event is about, and goes on in the trace in which it began, as its status tells it. Empty
// or unreadable text changes no trace. The first operation counts; once the span has begun it is too late.
func (h *Hop) Join(operation, traceparent string) {
	if !h.traced() {
		return
	}
	h.operation(operation)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.span == nil && !h.joined {
		began := parse(traceparent)
		h.parent, h.links = join(began, h.parent, h.links)
		h.joined = began.IsValid()
	}
}

// Begin starts the span as the root of a new trace, that of an operation, and returns the traceparent to store. It points
// to where the event came from instead of going on there: a tick's trace would take in every set's resize, and the Broker
// that samples one source event in a hundred would have decided which resizes are seen. Empty when tracing is off.
func (h *Hop) Begin(ctx context.Context) string {
	if !h.traced() {
		return ""
	}
	h.mu.Lock()
	if h.span == nil {
		h.root = true
		if h.parent.IsValid() {
			h.links = append([]trace.SpanContext{h.parent}, h.links...)
		}
	}
	h.mu.Unlock()
	return render(h.Trace(ctx))
}

// Trace is the context of the hop's span; invalid when tracing is off.
func (h *Hop) Trace(ctx context.Context) trace.SpanContext {
	if !h.traced() {
		return trace.SpanContext{}
	}
	return h.start(ctx).SpanContext()
}

// started is the context of the span if there is one already.
func (h *Hop) started() trace.SpanContext {
	if !h.traced() {
		return trace.SpanContext{}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.span == nil {
		return trace.SpanContext{}
	}
	return h.span.SpanContext()
}

// start starts the span, or returns the one that was started.
func (h *Hop) start(ctx context.Context) trace.Span {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.span != nil {
		return h.span
	}
	options := []trace.SpanStartOption{
		trace.WithTimestamp(h.received), trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(h.attributes()...), trace.WithAttributes(h.about...),
	}
	for _, l := range h.links {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: l}))
	}
	if h.root {
		options = append(options, trace.WithNewRoot())
	}
	_, h.span = h.telemetry.tracer.Start(trace.ContextWithRemoteSpanContext(ctx, h.parent), h.function+" "+h.event.Type(), options...)
	return h.span
}

// End ends the span.
func (h *Hop) End(ctx context.Context, r Result) {
	if !h.traced() {
		return
	}
	span := h.start(ctx)
	span.SetAttributes(semconv.HTTPResponseStatusCode(r.Code), outcomeKey.String(r.Outcome))
	if r.Err != nil {
		span.SetAttributes(semconv.ErrorTypeKey.String(strconv.Itoa(r.Code)))
		span.SetStatus(codes.Error, r.Err.Error())
	}
	span.End()
}
