package gateway

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"drydock.dev/eventsource/gateway/measure"
	"drydock.dev/shared/api"
)

// measure counts the request, and notes what it has found.
func (g *Gateway) measure(ctx context.Context, strategy string, ask Ask, s Session) {
	g.meters.Request(ctx, strategy, ask.target())
	now := time.Now()
	for _, set := range s.Sets {
		if set.State != Missing {
			g.meters.Saw(ctx, now, measure.Instance{Name: set.Ref.String(), Group: set.Group, Ready: set.State == Ready, Until: set.Until})
		}
	}
}

// report writes a log line for a request that changed something or was refused: of the query only what it is about, which the
// parser has checked. A busy site asks at each of its requests, and strangers may ask as often as they like. So requests that change
// nothing are for debugging, and of refusals one a second is shown.
func (g *Gateway) report(r *http.Request, a answer, took time.Duration) {
	level := slog.LevelDebug
	switch {
	case a.err != nil && g.complains(time.Now().Unix()):
		level = slog.LevelWarn
	case a.wrote:
		level = slog.LevelInfo
	}
	fields := []slog.Attr{
		slog.Any("function", api.WakeGateway), slog.String("outcome", a.outcome()), slog.Int("code", a.code),
		slog.String("took", took.Round(time.Microsecond).String()), slog.String("path", clip(r.URL.Path, 100)),
	}
	if a.subject != "" {
		fields = append(fields, slog.String("subject", a.subject))
	}
	if a.err != nil {
		fields = append(fields, slog.String("error", a.err.Error()))
	}
	g.log.LogAttrs(r.Context(), level, "request", fields...)
}

// complains reports whether a refusal is to be shown in the second.
func (g *Gateway) complains(second int64) bool {
	last := g.complained.Load()
	return last != second && g.complained.CompareAndSwap(last, second)
}
