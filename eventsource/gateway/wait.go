package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"drydock.dev/eventsource/gateway/measure"
	"drydock.dev/shared/api"
	"drydock.dev/shared/text"
	"drydock.dev/shared/token"
)

// Pauses between two observations of a waiting request.
const (
	firstPause   = 250 * time.Millisecond
	longestPause = time.Second
)

// wait extends the session repeatedly until it is ready or cannot become ready. Therefore the session has its full length when the
// sets are ready. While it waits, it ignores errors that may pass.
func (g *Gateway) wait(caller context.Context, query Query) (session Session, wrote bool, err error) {
	ctx, cancel := context.WithTimeout(caller, query.Timeout)
	defer cancel()
	session, wrote, err = g.startSession(ctx, query)
	site := session.waiterKey()
	switch {
	case err != nil && ctx.Err() != nil:
		return session, wrote, waitProblem(caller, query, session)
	case !isPending(session, err):
		return session, wrote, err
	case !g.waiters.TryAcquire(site):
		return session, wrote, tooManyRequests()
	}
	defer g.waiters.Release(site)
	for pause := firstPause; isPending(session, err); pause = min(pause*3/2, longestPause) {
		select {
		case <-ctx.Done():
			return session, wrote, waitProblem(caller, query, session)
		case <-g.ending.Done():
			return session, wrote, shuttingDown()
		case <-time.After(pause):
		}
		next, more, failed := g.keepAwake(ctx, query)
		wrote = wrote || more
		switch {
		case failed == nil:
			session = next
		case isProblem(failed):
			return session, wrote, failed
		}
	}
	return session, wrote, err
}

// firstTries is the number of tries to observe the sets for the first time, before an error that may pass is reported.
const firstTries = 3

// startSession observes the sets for the first time. It retries, so that a short failure of the API server does not reject a visitor.
func (g *Gateway) startSession(ctx context.Context, query Query) (session Session, wrote bool, err error) {
	pause := firstPause
	for range firstTries {
		session, wrote, err = g.keepAwake(ctx, query)
		if err == nil || isProblem(err) {
			return session, wrote, err
		}
		select {
		case <-ctx.Done():
			return session, wrote, err
		case <-g.ending.Done():
			return session, wrote, err
		case <-time.After(pause):
			pause = min(pause*2, longestPause)
		}
	}
	return session, wrote, err
}

// isPending reports whether the session may become ready.
func isPending(session Session, err error) bool {
	return err == nil && !session.Ready() && session.refused() == nil
}

// waitProblem returns the problem after the context ended: the caller disconnected, or the time is over.
func waitProblem(caller context.Context, query Query, session Session) error {
	if caller.Err() != nil {
		return callerGone()
	}
	return timedOut(query, session)
}

// timedOut returns the problem of a session that is not ready in time. It names the first five sets that are not ready.
func timedOut(query Query, session Session) error {
	const most = 5
	var late []string
	var pending []problemInstance
	for _, set := range session.Sets {
		if set.Needed && set.State != Ready && len(late) < most {
			late = append(late, set.Ref.String()+" is "+set.describe())
			pending = append(pending, problemInstance{responseNames(query, set.Ref)[0], sablierStatus[set.State], set.Message})
		}
	}
	p := problem(http.StatusGatewayTimeout, "not ready after %s: %s", query.Timeout, strings.Join(late, "; "))
	p.Retry, p.Instances = retryAfter, pending
	return p
}

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

// Secret is a setting that is never printed.
type Secret = token.Secret

// checkToken returns a problem if the request does not have the token, else nil.
func checkToken(t token.Token, r *http.Request) error {
	err := t.Check(r)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, token.ErrWrong):
		return unauthorized()
	}
	return tokenUnreadable(err)
}
