package telemetry

import (
	"context"

	"github.com/cloudevents/sdk-go/v2/event"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

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
