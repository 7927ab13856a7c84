package telemetry

import (
	"context"
	"net/http"

	"github.com/cloudevents/sdk-go/v2/event"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// The names of W3C trace context, in HTTP headers as in the CloudEvents Distributed Tracing extension.
const (
	traceParent = "traceparent"
	traceState  = "tracestate"
)

// w3c reads and writes trace context. What it cannot read is no context (https://www.w3.org/TR/trace-context/ asks to
// start a new trace then).
var w3c propagation.TraceContext

func read(carrier propagation.TextMapCarrier) trace.SpanContext {
	return trace.SpanContextFromContext(w3c.Extract(context.Background(), carrier))
}

// parse reads a traceparent alone, as a status holds it.
func parse(text string) trace.SpanContext {
	return read(propagation.MapCarrier{traceParent: text})
}

// render writes a traceparent alone; empty for no valid context.
func render(at trace.SpanContext) string {
	carrier := propagation.MapCarrier{}
	w3c.Inject(trace.ContextWithSpanContext(context.Background(), at), carrier)
	return carrier[traceParent]
}

// extension is the trace context in a CloudEvent's extensions.
type extension struct{ *event.Event }

// Get returns an extension; what is no text is none.
func (x extension) Get(key string) string {
	text, _ := x.Extensions()[key].(string)
	return text
}

// Set sets an extension.
func (x extension) Set(key, value string) { x.SetExtension(key, value) }

// Keys are the extensions that trace context uses.
func (x extension) Keys() []string { return []string{traceParent, traceState} }

// Stamp puts the trace context of the work under way into an event that comes of it. Without one the event stays as it is.
func Stamp(ctx context.Context, e *event.Event) {
	if at := current(ctx); at.IsValid() {
		w3c.Inject(trace.ContextWithSpanContext(ctx, at), extension{e})
	}
}

// StampHeader does the same for a request that carries such an event.
func StampHeader(ctx context.Context, header http.Header) {
	if at := current(ctx); at.IsValid() {
		w3c.Inject(trace.ContextWithSpanContext(ctx, at), propagation.HeaderCarrier(header))
	}
}

// current is the span of the event that is worked on, or the one that the context has of elsewhere.
func current(ctx context.Context) trace.SpanContext {
	if hop := From(ctx); hop != nil {
		return hop.Trace(ctx)
	}
	return trace.SpanContextFromContext(ctx)
}

// lineage says of which span an event's own is a child, and which it only points to.
//
// The extension is written once, by whoever made the event, and no Broker touches it; the header is rewritten at each
// hop. Where both are of one trace, the header's is the nearer span of it. Where they are not, the extension says what
// the event is about: a Knative Broker posts a reply within the trace of the event that was replied to (pkg/channel/fanout,
// pkg/kncloudevents), also when the function that replied has gone on in the trace of its operation.
func lineage(header, extension trace.SpanContext) (parent trace.SpanContext, links []trace.SpanContext) {
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

// join moves the work to the operation's trace. Who comes from within that trace stays where it is in it; from elsewhere
// one comes as a child of the span that began the operation, and points to where one came from.
func join(operation, parent trace.SpanContext, links []trace.SpanContext) (trace.SpanContext, []trace.SpanContext) {
	if !operation.IsValid() || operation.TraceID() == parent.TraceID() {
		return parent, links
	}
	came := append([]trace.SpanContext{parent}, links...)
	next, pointed := operation, []trace.SpanContext{}
	for _, c := range came {
		switch {
		case c.TraceID() == operation.TraceID():
			next = c
		case c.IsValid():
			pointed = append(pointed, c)
		}
	}
	return next, pointed
}
