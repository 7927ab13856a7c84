package telemetry

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel/trace"
)

// LogHandler adds to each line that is written for an event which span it belongs to, under the names that OpenTelemetry
// has for logs in other formats (trace_id, span_id). A line before the span has begun has none: its trace is not known
// yet.
func LogHandler(next slog.Handler) slog.Handler { return logHandler{next} }

type logHandler struct{ slog.Handler }

// Handle writes the line.
func (h logHandler) Handle(ctx context.Context, line slog.Record) error {
	at := trace.SpanContextFromContext(ctx)
	if hop := From(ctx); hop != nil {
		at = hop.started()
	}
	if at.IsValid() {
		line = line.Clone()
		line.AddAttrs(slog.String("trace_id", at.TraceID().String()), slog.String("span_id", at.SpanID().String()))
	}
	return h.Handler.Handle(ctx, line)
}

// WithAttrs keeps the handler around the one with the attributes.
func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup keeps the handler around the one with the group.
func (h logHandler) WithGroup(name string) slog.Handler { return logHandler{h.Handler.WithGroup(name)} }
