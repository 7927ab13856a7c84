package telemetry

import (
	"context"
	"strconv"

	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.40.0"
	"go.opentelemetry.io/otel/trace"
)

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
