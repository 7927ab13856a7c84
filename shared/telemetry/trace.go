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

// Describe adds attributes to the span.
func (h *Invocation) Describe(attributes ...attribute.KeyValue) {
	if !h.traced() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.span == nil {
		h.pendingAttributes = append(h.pendingAttributes, attributes...)
		return
	}
	h.span.SetAttributes(attributes...)
}

// SetObject sets the StatefulSet of the event, and the operation that the event names, if any. The span gets the operation
// only after the objects have confirmed it.
func (h *Invocation) SetObject(namespace, name, operation string) {
	if h != nil {
		h.eventOperation = operation
	}
	h.Describe(semconv.K8SNamespaceName(namespace), semconv.K8SStatefulSetName(name))
}

// NamesOperation reports whether the event names the operation.
func (h *Invocation) NamesOperation(operation string) bool {
	return h != nil && operation != "" && h.eventOperation == operation
}

// SetDecision records the decision on the set. The last decision counts. A known operation stays.
func (h *Invocation) SetDecision(kind, reason, operation string) {
	h.Describe(planKindKey.String(kind), planReasonKey.String(reason))
	h.setOperation(operation)
}

func (h *Invocation) setOperation(id string) {
	if id != "" {
		h.Describe(operationKey.String(id))
	}
}

// attributes returns the attributes of the semantic conventions for functions, messages and CloudEvents.
func (h *Invocation) attributes() []attribute.KeyValue {
	found := []attribute.KeyValue{
		semconv.FaaSName(h.function), semconv.FaaSTriggerPubSub, semconv.FaaSColdstart(h.cold),
		semconv.MessagingSystemKey.String("knative"), // as in Knative's spans (pkg/observability/key.go)
		semconv.MessagingOperationName("process"), semconv.MessagingOperationTypeProcess,
		semconv.CloudEventsEventID(h.event.ID()), semconv.CloudEventsEventType(h.event.Type()),
		semconv.CloudEventsEventSource(h.event.Source()), semconv.CloudEventsEventSpecVersion(h.event.SpecVersion()),
	}
	if subject := h.event.Subject(); subject != "" {
		found = append(found, semconv.CloudEventsEventSubject(subject))
	}
	return found
}

// The names of W3C trace context, in HTTP headers and in the CloudEvents Distributed Tracing extension.
const (
	traceParent = "traceparent"
	traceState  = "tracestate"
)

// w3c reads and writes trace context. Unreadable text is no context: https://www.w3.org/TR/trace-context/ asks to start
// a new trace then.
var w3c propagation.TraceContext

func extract(carrier propagation.TextMapCarrier) trace.SpanContext {
	return trace.SpanContextFromContext(w3c.Extract(context.Background(), carrier))
}

// parseTraceParent reads a traceparent without a tracestate, as a status stores it.
func parseTraceParent(text string) trace.SpanContext {
	return extract(propagation.MapCarrier{traceParent: text})
}

// formatTraceParent writes a traceparent without a tracestate. It returns "" for an invalid context.
func formatTraceParent(at trace.SpanContext) string {
	carrier := propagation.MapCarrier{}
	w3c.Inject(trace.ContextWithSpanContext(context.Background(), at), carrier)
	return carrier[traceParent]
}

// eventCarrier is the trace context in a CloudEvent's extensions.
type eventCarrier struct{ *event.Event }

// Get returns an extension, or "" if it is not a text.
func (x eventCarrier) Get(key string) string {
	text, _ := x.Extensions()[key].(string)
	return text
}

// Set sets an extension.
func (x eventCarrier) Set(key, value string) { x.SetExtension(key, value) }

// Keys returns the extensions that trace context uses.
func (x eventCarrier) Keys() []string { return []string{traceParent, traceState} }

// parentAndLinks returns the parent of an event's span, and the contexts that it links to.
//
// The function that creates an event writes the extension once, and no Broker changes it. The header is rewritten at
// each hop. If both belong to one trace, the header has the nearer span. Otherwise the extension identifies the event's
// trace: a Knative Broker posts a reply in the trace of the original event (pkg/channel/fanout, pkg/kncloudevents), even
// if the function has joined the trace of its operation.
func parentAndLinks(header, extension trace.SpanContext) (parent trace.SpanContext, links []trace.SpanContext) {
	switch {
	case !extension.IsValid():
		return header, nil
	case !header.IsValid():
		return extension, nil
	case header.TraceID() == extension.TraceID():
		return header, nil
	}
	return extension, []trace.SpanContext{header}
}

// joinTrace moves the work to the operation's trace. If the parent or a link is in that trace already, it becomes the
// parent. Otherwise the parent is the span that began the operation, and the former parent becomes a link.
func joinTrace(operation, parent trace.SpanContext, links []trace.SpanContext) (trace.SpanContext, []trace.SpanContext) {
	if !operation.IsValid() || operation.TraceID() == parent.TraceID() {
		return parent, links
	}
	origins := append([]trace.SpanContext{parent}, links...)
	next, linked := operation, []trace.SpanContext{}
	for _, c := range origins {
		switch {
		case c.TraceID() == operation.TraceID():
			next = c
		case c.IsValid():
			linked = append(linked, c)
		}
	}
	return next, linked
}

// Join sets the event's operation, and continues the operation's trace, which its status stores. Empty or unreadable
// text changes no trace. The first operation counts. After the span has started, Join has no effect on its trace.
func (h *Invocation) Join(operation, traceparent string) {
	if !h.traced() {
		return
	}
	h.setOperation(operation)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.span == nil && !h.joined {
		began := parseTraceParent(traceparent)
		h.parent, h.links = joinTrace(began, h.parent, h.links)
		h.joined = began.IsValid()
	}
}

// Begin starts the span as the root of an operation's new trace, and returns the traceparent to store, or "" if tracing
// is off. The new trace links to the trace of the event instead of continuing it. A tick's trace would contain every
// set's resize, and the Broker that samples one source event in a hundred would decide which resizes are visible.
func (h *Invocation) Begin(ctx context.Context) string {
	if !h.traced() {
		return ""
	}
	h.mu.Lock()
	if h.span == nil {
		h.newRoot = true
		if h.parent.IsValid() {
			h.links = append([]trace.SpanContext{h.parent}, h.links...)
		}
	}
	h.mu.Unlock()
	return formatTraceParent(h.SpanContext(ctx))
}

// SpanContext returns the context of the span. It is invalid if tracing is off.
func (h *Invocation) SpanContext(ctx context.Context) trace.SpanContext {
	if !h.traced() {
		return trace.SpanContext{}
	}
	return h.startSpan(ctx).SpanContext()
}

// startedSpan returns the context of the span if it has started.
func (h *Invocation) startedSpan() trace.SpanContext {
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

// startSpan starts the span, or returns the span that was started.
func (h *Invocation) startSpan(ctx context.Context) trace.Span {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.span != nil {
		return h.span
	}
	options := []trace.SpanStartOption{
		trace.WithTimestamp(h.received), trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(h.attributes()...), trace.WithAttributes(h.pendingAttributes...),
	}
	for _, l := range h.links {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: l}))
	}
	if h.newRoot {
		options = append(options, trace.WithNewRoot())
	}
	_, h.span = h.telemetry.tracer.Start(trace.ContextWithRemoteSpanContext(ctx, h.parent), h.function+" "+h.event.Type(), options...)
	return h.span
}

// End ends the span.
func (h *Invocation) End(ctx context.Context, r Result) {
	if !h.traced() {
		return
	}
	span := h.startSpan(ctx)
	span.SetAttributes(semconv.HTTPResponseStatusCode(r.Code), outcomeKey.String(r.Outcome))
	if r.Err != nil {
		span.SetAttributes(semconv.ErrorTypeKey.String(strconv.Itoa(r.Code)))
		span.SetStatus(codes.Error, r.Err.Error())
	}
	span.End()
}

// Stamp writes the trace context of the current work into an event that results from it. Without a trace context it does
// not change the event.
func Stamp(ctx context.Context, e *event.Event) {
	if at := current(ctx); at.IsValid() {
		w3c.Inject(trace.ContextWithSpanContext(ctx, at), eventCarrier{e})
	}
}

// StampHeader does the same for a request that carries such an event.
func StampHeader(ctx context.Context, header http.Header) {
	if at := current(ctx); at.IsValid() {
		w3c.Inject(trace.ContextWithSpanContext(ctx, at), propagation.HeaderCarrier(header))
	}
}

// current returns the span of the event that is being handled, or the span in the context.
func current(ctx context.Context) trace.SpanContext {
	if hop := From(ctx); hop != nil {
		return hop.SpanContext(ctx)
	}
	return trace.SpanContextFromContext(ctx)
}
