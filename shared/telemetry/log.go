package telemetry

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel/trace"
)

// LogHandler adds the event's span to each log line, under OpenTelemetry's names for logs in other formats (trace_id,
// span_id). A line before the start of the span has neither, because its trace is not known yet.
func LogHandler(next slog.Handler) slog.Handler { return logHandler{next} }

type logHandler struct{ slog.Handler }

// Handle writes the line.
func (h logHandler) Handle(ctx context.Context, line slog.Record) error {
	at := trace.SpanContextFromContext(ctx)
	if hop := From(ctx); hop != nil {
		at = hop.startedSpan()
	}
	if at.IsValid() {
		line = line.Clone()
		line.AddAttrs(slog.String("trace_id", at.TraceID().String()), slog.String("span_id", at.SpanID().String()))
	}
	return h.Handler.Handle(ctx, line)
}

// WithAttrs wraps the handler with the attributes.
func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup wraps the handler with the group.
func (h logHandler) WithGroup(name string) slog.Handler { return logHandler{h.Handler.WithGroup(name)} }
