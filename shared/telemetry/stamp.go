package telemetry

import (
	"context"
	"net/http"

	"github.com/cloudevents/sdk-go/v2/event"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

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
