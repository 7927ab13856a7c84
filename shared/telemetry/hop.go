package telemetry

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Invocation is one event on its way through a function.
//
// The trace of its span is known only after the objects were read. Any event, such as the end of a Job, may wake a
// function, and the operation that it concerns has a trace already. Therefore the span starts when it is first needed,
// with the time at which the event arrived.
type Invocation struct {
	telemetry      *Telemetry
	function       string
	event          event.Event
	received       time.Time
	cold           bool
	eventOperation string // the operation that the event names, or ""

	mu                sync.Mutex
	parent            trace.SpanContext
	links             []trace.SpanContext
	joined            bool                 // the span is in an operation's trace
	newRoot           bool                 // the span is the root of a new trace
	pendingAttributes []attribute.KeyValue // attributes for the span that has not started
	span              trace.Span           // nil until it starts
}

type hopKey struct{}

// Receive begins an event's way through the function. The header is the request's, or nil. The returned context carries
// the Hop to every part of the work.
func (t *Telemetry) Receive(ctx context.Context, function string, e event.Event, header http.Header) (context.Context, *Invocation) {
	h := &Invocation{telemetry: t, function: function, event: e, received: time.Now(), cold: !t.warm.Swap(true)}
	if t.Tracing() {
		h.parent, h.links = parentAndLinks(extract(propagation.HeaderCarrier(header)), extract(eventCarrier{&e}))
	}
	return context.WithValue(ctx, hopKey{}, h), h
}

// From returns the context's Hop, or nil. All methods of a nil Hop do nothing.
func From(ctx context.Context) *Invocation {
	h, _ := ctx.Value(hopKey{}).(*Invocation)
	return h
}

func (h *Invocation) traced() bool { return h != nil && h.telemetry.Tracing() }
