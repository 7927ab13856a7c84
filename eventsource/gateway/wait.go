package gateway

import (
	"context"
	"net/http"
	"strings"
	"time"
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
