package gateway

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"drydock.dev/eventsource/gateway/measure"
	"drydock.dev/shared/api"
	"drydock.dev/shared/text"
)

// measure counts the request and records the state of its sets.
func (g *Gateway) measure(ctx context.Context, strategy string, query Query, s Session) {
	g.meters.Request(ctx, strategy, query.target())
	now := time.Now()
	for _, set := range s.Sets {
		if set.State != Missing {
			g.meters.Record(ctx, now, measure.Instance{Name: set.Ref.String(), Group: set.Group, Ready: set.State == Ready, Until: set.Until})
		}
	}
}

// report logs a request. Of the query it logs only the validated names. A busy site sends a request for each of its own, and
// anonymous callers may send any number. So a request without a write has level debug, and only one refusal per second is a warning.
func (g *Gateway) report(r *http.Request, a answer, took time.Duration) {
	level := slog.LevelDebug
	switch {
	case a.err != nil && g.mayWarn(time.Now().Unix()):
		level = slog.LevelWarn
	case a.wrote:
		level = slog.LevelInfo
	}
	fields := []slog.Attr{
		slog.Any("function", api.WakeGateway), slog.String("outcome", a.outcome()), slog.Int("code", a.code),
		slog.String("took", took.Round(time.Microsecond).String()), slog.String("path", text.Clip(r.URL.Path, 100)),
	}
	if a.subject != "" {
		fields = append(fields, slog.String("subject", a.subject))
	}
	if a.err != nil {
		fields = append(fields, slog.String("error", a.err.Error()))
	}
	g.log.LogAttrs(r.Context(), level, "request", fields...)
}

// mayWarn reports whether a refusal in this second is logged as a warning.
func (g *Gateway) mayWarn(second int64) bool {
	last := g.lastWarning.Load()
	return last != second && g.lastWarning.CompareAndSwap(last, second)
}
