package gateway

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// streamer writes a body over time.
type streamer func(http.ResponseWriter)

const (
	// streamPause is the time between two observations of a stream.
	streamPause = 2 * time.Second
	// heartbeat is the longest time without a write. Only a write shows that the caller has disconnected.
	heartbeat = 15 * time.Second
)

// events answers with Server-Sent Events about sets (sablierapp/sablier internal/api/instance_events.go). It does not keep sets awake.
// Without names or group it covers all sets, and requires a token.
func (g *Gateway) events(r *http.Request) answer {
	query, types, err := g.streamQuery(r)
	if err != nil {
		return refuse(r.URL.Path, err)
	}
	units, err := g.peek(r.Context(), query)
	if err != nil {
		return refuse(r.URL.Path, err)
	}
	if !g.waiters.TryAcquire(pathEvents) {
		return refuse(r.URL.Path, tooManyStreams())
	}
	a := answer{code: http.StatusOK, kind: "text/event-stream"}
	a.stream = func(w http.ResponseWriter) {
		defer g.waiters.Release(pathEvents)
		g.stream(r.Context(), w, query, types, units)
	}
	return a
}

// streamQuery reads the query of a stream.
func (g *Gateway) streamQuery(r *http.Request) (Query, []string, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return Query{}, nil, invalid("the query cannot be parsed. Encode it as a URL query")
	}
	types := values["types"]
	if len(values["names"]) == 0 && len(values["group"]) == 0 {
		if !g.token.Required() {
			return Query{}, nil, streamNeedsToken()
		}
		return Query{All: true}, types, nil
	}
	query, err := ParseQuery(values, g.options)
	return query, types, err
}

// stream writes events until the caller disconnects, the gateway stops, or LongestWait is over. The client then connects again.
func (g *Gateway) stream(caller context.Context, w http.ResponseWriter, query Query, types []string, units []Unit) {
	ctx, cancel := context.WithTimeout(caller, LongestWait)
	defer cancel()
	control := http.NewResponseController(w)
	seen, next, quiet := map[Ref]Set{}, SessionOf(units), time.Now()
	for {
		text := ""
		for _, change := range changes(seen, next.Sets, types) {
			text += fmt.Sprintf("event:%s\ndata:%s\n", change.Type, encode(toInstance(responseNames(query, change.Set.Ref)[0], change.Set)))
		}
		seen = byRef(next.Sets)
		if text == "" && time.Since(quiet) >= heartbeat {
			text = ":\n\n"
		}
		if text != "" {
			quiet = time.Now()
			if _, err := w.Write([]byte(text)); err != nil {
				return
			}
		}
		if control.Flush() != nil { // also before the first event, so that the client knows that it is connected
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-g.ending.Done():
			return
		case <-time.After(streamPause):
		}
		next = g.refresh(ctx, query, next)
	}
}

// refresh returns the session now. It is empty if the sets are gone or no longer opted in. After an error that may pass, the previous
// session is returned.
func (g *Gateway) refresh(ctx context.Context, query Query, before Session) Session {
	units, err := g.peek(ctx, query)
	switch {
	case isProblem(err):
		return Session{}
	case err != nil:
		return before
	}
	return SessionOf(units)
}
