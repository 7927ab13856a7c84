package gateway

import (
	"context"
	"time"
)

// Pauses between two looks of a request that waits.
const (
	firstPause   = 250 * time.Millisecond
	longestPause = time.Second
)

// wait looks until the session is ready, or can never be. Each look keeps the session alive, so that it is whole when the
// sets are ready at last. Once it has begun to wait it goes on over errors that may pass.
func (g *Gateway) wait(caller context.Context, ask Ask) (session Session, wrote bool, err error) {
	ctx, cancel := context.WithTimeout(caller, ask.Timeout)
	defer cancel()
	session, wrote, err = g.first(ctx, ask)
	switch {
	case err != nil && ctx.Err() != nil:
		return session, wrote, gaveUp(caller, ask, session)
	case !goesOn(session, err):
		return session, wrote, err
	case !g.seats.Take(ask.String()):
		return session, wrote, full()
	}
	defer g.seats.Leave(ask.String())
	for pause := firstPause; goesOn(session, err); pause = min(pause*3/2, longestPause) {
		select {
		case <-ctx.Done():
			return session, wrote, gaveUp(caller, ask, session)
		case <-g.ending.Done():
			return session, wrote, stopping()
		case <-time.After(pause):
		}
		next, more, failed := g.look(ctx, ask)
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

// firstLooks is how often a request looks that has not seen the sets yet, before it reports an error that may pass.
const firstLooks = 3

// first looks for the first time. An API server that stumbles once does not turn a visitor away.
func (g *Gateway) first(ctx context.Context, ask Ask) (session Session, wrote bool, err error) {
	pause := firstPause
	for range firstLooks {
		session, wrote, err = g.look(ctx, ask)
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

func goesOn(session Session, err error) bool {
	return err == nil && !session.Ready() && session.refused() == nil
}

// gaveUp says whose time is over.
func gaveUp(caller context.Context, ask Ask, session Session) error {
	if caller.Err() != nil {
		return gone()
	}
	return timedOut(ask, session)
}
