package export

import (
	"context"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// spanExporter sends spans to a collector.
type spanExporter struct{ to *collector }

func newSpanExporter() (*spanExporter, error) {
	to, err := newCollector(traces)
	return &spanExporter{to}, err
}

// ExportSpans sends a batch.
func (x *spanExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if len(spans) == 0 {
		return nil
	}
	return x.to.post(ctx, spansMessage(spans))
}

// Shutdown closes idle connections.
func (x *spanExporter) Shutdown(context.Context) error {
	x.to.client.CloseIdleConnections()
	return nil
}

// spansMessage returns an ExportTraceServiceRequest. All spans belong to this process and therefore to one resource.
func spansMessage(spans []sdktrace.ReadOnlySpan) message {
	var order []instrumentation.Scope
	scopes := map[instrumentation.Scope]message{}
	for _, s := range spans {
		scope := s.InstrumentationScope()
		of, known := scopes[scope]
		if !known {
			order = append(order, scope)
			of.embed(1, scopeMessage(scope))
		}
		of.embed(2, spanMessage(s))
		scopes[scope] = of
	}
	var all message
	all.embed(1, resourceMessage(spans[0].Resource()))
	for _, scope := range order {
		of := scopes[scope]
		of.text(3, scope.SchemaURL)
		all.embed(2, of)
	}
	all.text(3, spans[0].Resource().SchemaURL())
	var request message
	request.embed(1, all)
	return request
}

func spanMessage(s sdktrace.ReadOnlySpan) message {
	at, parent := s.SpanContext(), s.Parent()
	traceID, spanID := at.TraceID(), at.SpanID()
	var m message
	m.bytes(1, traceID[:])
	m.bytes(2, spanID[:])
	m.text(3, at.TraceState().String())
	if parent.SpanID().IsValid() {
		id := parent.SpanID()
		m.bytes(4, id[:])
	}
	m.text(5, s.Name())
	m.varint(6, uint64(s.SpanKind())) //nolint:gosec // the SDK's numbers are those of the wire
	m.time(7, s.StartTime())
	m.time(8, s.EndTime())
	m.attributes(9, s.Attributes())
	m.varint(10, uint64(s.DroppedAttributes())) //nolint:gosec // a count
	for _, e := range s.Events() {
		m.embed(11, eventMessage(e))
	}
	m.varint(12, uint64(s.DroppedEvents())) //nolint:gosec // a count
	for _, l := range s.Links() {
		m.embed(13, linkMessage(l))
	}
	m.varint(14, uint64(s.DroppedLinks())) //nolint:gosec // a count
	m.embed(15, statusMessage(s.Status()))
	m.fixed32(16, flags(at, parent))
	return m
}

func eventMessage(e sdktrace.Event) message {
	var m message
	m.time(1, e.Time)
	m.text(2, e.Name)
	m.attributes(3, e.Attributes)
	m.varint(4, uint64(e.DroppedAttributeCount)) //nolint:gosec // a count
	return m
}

// linkMessage omits the trace state (field 3), like the SDK's own exporter.
func linkMessage(l sdktrace.Link) message {
	traceID, spanID := l.SpanContext.TraceID(), l.SpanContext.SpanID()
	var m message
	m.bytes(1, traceID[:])
	m.bytes(2, spanID[:])
	m.attributes(4, l.Attributes)
	m.varint(5, uint64(l.DroppedAttributeCount)) //nolint:gosec // a count
	m.fixed32(6, flags(l.SpanContext, l.SpanContext))
	return m
}

// statusMessage uses the code numbers of the wire, where Ok is 1 and Error is 2. In the API it is the reverse.
func statusMessage(s sdktrace.Status) message {
	var m message
	m.text(2, s.Description)
	switch s.Code {
	case codes.Ok:
		m.varint(3, 1)
	case codes.Error:
		m.varint(3, 2)
	}
	return m
}

// flags returns the W3C flags and, above them, whether the parent is known to be in another process (SpanFlags in
// opentelemetry-proto).
func flags(at, parent trace.SpanContext) uint32 {
	const knowsRemote, isRemote = 0x100, 0x200
	f := uint32(at.TraceFlags()) | knowsRemote
	if parent.IsRemote() {
		f |= isRemote
	}
	return f
}
