package gateway

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// streamer writes a body as it comes.
type streamer func(http.ResponseWriter)

const (
	// streamPause is the time between two looks of a stream of events.
	streamPause = 2 * time.Second
	// heartbeat is the longest time in which a stream writes nothing: what is written shows that the caller went away.
	heartbeat = 15 * time.Second
)

// events answers with a stream of Server-Sent Events about sets (sablierapp/sablier internal/api/instance_events.go). It keeps
// nothing awake. Without names or group it is about all sets, which is for callers with a token only.
func (g *Gateway) events(r *http.Request) answer {
	ask, types, err := g.streamed(r)
	if err != nil {
		return refuse(r.URL.Path, err)
	}
	units, err := g.watch(r.Context(), ask)
	if err != nil {
		return refuse(r.URL.Path, err)
	}
	if !g.seats.Take(pathEvents) {
		return refuse(r.URL.Path, full())
	}
	a := answer{code: statusOK, kind: "text/event-stream"}
	a.stream = func(w http.ResponseWriter) {
		defer g.seats.Leave(pathEvents)
		g.stream(r.Context(), w, ask, types, units)
	}
	return a
}

// streamed reads what a stream is about.
func (g *Gateway) streamed(r *http.Request) (Ask, []string, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return Ask{}, nil, invalid("the query cannot be read. Encode it as a URL's query")
	}
	types := query["types"]
	if len(query["names"]) == 0 && len(query["group"]) == 0 {
		if !g.token.wanted() {
			return Ask{}, nil, noStreamOfAll()
		}
		return Ask{All: true}, types, nil
	}
	ask, err := ParseAsk(query, g.options)
	return ask, types, err
}

// stream writes events until the caller goes away, the gateway ends, or it has lasted long enough: its reader connects again.
func (g *Gateway) stream(caller context.Context, w http.ResponseWriter, ask Ask, types []string, units []Unit) {
	ctx, cancel := context.WithTimeout(caller, LongestWait)
	defer cancel()
	control := http.NewResponseController(w)
	seen, next, quiet := map[Ref]Set{}, Judge(units), time.Now()
	for {
		text := ""
		for _, change := range changes(seen, next.Sets, types) {
			text += fmt.Sprintf("event:%s\ndata:%s\n", change.Type, encode(instanceOf(nameOf(ask, change.Set.Ref)[0], change.Set)))
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
		if control.Flush() != nil { // also before the first event: the reader learns that it is connected
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-g.ending.Done():
			return
		case <-time.After(streamPause):
		}
		next = g.lookOn(ctx, ask, next)
	}
}

// lookOn returns how the sets stand now. What has gone, or is not opted in any more, stands no more; over errors that may pass
// the stream goes on.
func (g *Gateway) lookOn(ctx context.Context, ask Ask, before Session) Session {
	units, err := g.watch(ctx, ask)
	switch {
	case isProblem(err):
		return Session{}
	case err != nil:
		return before
	}
	return Judge(units)
}
