package engine

import (
	"context"
	"log/slog"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// newZapLogger returns a logger for Knative's packages that writes to log. It logs their information at debug level, because only
// developers of Knative need it.
func newZapLogger(log *slog.Logger) *zap.Logger {
	return zap.New(zapCore{handler: log.With("component", "knative").Handler()})
}

// zapCore passes zap's entries to a slog handler.
type zapCore struct{ handler slog.Handler }

func slogLevel(level zapcore.Level) slog.Level {
	switch {
	case level >= zapcore.ErrorLevel:
		return slog.LevelError
	case level == zapcore.WarnLevel:
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

func (c zapCore) Enabled(level zapcore.Level) bool {
	return c.handler.Enabled(context.Background(), slogLevel(level))
}

func (c zapCore) With(fields []zapcore.Field) zapcore.Core {
	return zapCore{handler: c.handler.WithAttrs(attributes(fields))}
}

func (c zapCore) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(entry.Level) {
		return checked.AddCore(entry, c)
	}
	return checked
}

func (c zapCore) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	record := slog.NewRecord(entry.Time, slogLevel(entry.Level), entry.Message, 0)
	record.AddAttrs(attributes(fields)...)
	return c.handler.Handle(context.Background(), record)
}

func (c zapCore) Sync() error { return nil }

func attributes(fields []zapcore.Field) []slog.Attr {
	encoder := zapcore.NewMapObjectEncoder()
	for _, field := range fields {
		field.AddTo(encoder)
	}
	attributes := make([]slog.Attr, 0, len(encoder.Fields))
	for key, value := range encoder.Fields {
		attributes = append(attributes, slog.Any(key, value))
	}
	return attributes
}
