// Package wakegateway wakes StatefulSets for people who come by HTTP. It answers as Sablier's strategy API does, so that
// Sablier's plugins for Traefik, Caddy and nginx wake sets of Drydock as they are.
//
//	in    GET /api/strategies/dynamic, blocking and poke with names or group; /health, /version, the lists of themes
//	get   the StatefulSets that are named, and those of their groups
//	do    move drydock.dev/awake-until of one StatefulSet of each group later; nothing else
//	out   the header X-Sablier-Session-Status, with a page, JSON, or a problem (RFC 7807)
//	never writes on a StatefulSet that has not opted in with drydock.dev/managed and drydock.dev/idle-timeout, chooses
//	its replicas, makes a session shorter, or says ready of one that sleeps
//
// It has no state: gateways beside each other agree by what is written on the sets. Who is awake, and when, is for
// idle-timeout to see to.
package wakegateway

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/apply"
	"drydock.dev/shared/kube"
)

// Options are the gateway's own settings. What is zero has its default.
type Options struct {
	LongestSession time.Duration `envconfig:"DRYDOCK_LONGEST_SESSION" default:"24h" desc:"longest session that a request to the wake gateway can ask for"`
	DefaultTimeout time.Duration `envconfig:"DRYDOCK_WAKE_TIMEOUT" default:"1m" desc:"how long a blocking request to the wake gateway waits where it does not say; at most 5m"`
}

const (
	defaultLongestSession = 24 * time.Hour
	defaultTimeout        = time.Minute
)

// LongestWait bounds a blocking request. Nobody before the gateway may cut it off sooner: the timeoutSeconds in
// deploy/wake-gateway are longer.
const LongestWait = 5 * time.Minute

// Gateway serves the strategies.
type Gateway struct {
	client     *kube.Client
	apply      *apply.Executor
	namespaces []string
	options    Options
	log        *slog.Logger
	ending     context.Context
	end        context.CancelFunc

	mu     sync.Mutex
	memory memory
}

// New makes the gateway of the namespaces that the settings name.
func New(client *kube.Client, settings api.Settings, options Options, log *slog.Logger) *Gateway {
	options.LongestSession = cmp.Or(options.LongestSession, defaultLongestSession)
	options.DefaultTimeout = min(cmp.Or(options.DefaultTimeout, defaultTimeout), LongestWait)
	ending, end := context.WithCancel(context.Background())
	return &Gateway{
		client: client, apply: apply.New(client, api.WakeGateway, log), namespaces: settings.Namespaces,
		options: options, log: log, ending: ending, end: end, memory: memory{},
	}
}

// Stop has the requests that wait answered, and those to come do not wait. It is for the server's RegisterOnShutdown: a
// server that shuts down waits for its requests, and does not end them.
func (g *Gateway) Stop() { g.end() }

// Paths of the API (sablierapp/sablier internal/api/start_dynamic.go, start_blocking.go, start_poke.go, theme_list.go,
// health.go). The list of themes has moved twice; old clients ask at the old places.
const (
	pathDynamic  = "/api/strategies/dynamic"
	pathBlocking = "/api/strategies/blocking"
	pathPoke     = "/api/strategies/poke"
	pathHealth   = "/health"
	pathVersion  = "/version"
)

var pathsThemes = []string{"/api/themes", "/api/dynamic/themes", "/api/strategies/dynamic/themes"}

// ServeHTTP answers one request.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	if r.URL.Path == pathBlocking {
		// A server's own limit is for requests that do not wait. A writer without limits says so, and needs none.
		_ = http.NewResponseController(w).SetWriteDeadline(start.Add(LongestWait + time.Minute))
	}
	a := g.answer(r)
	for key, value := range a.headers() {
		w.Header().Set(key, value)
	}
	w.WriteHeader(a.code)
	_, _ = w.Write(a.body) // a caller that went away is no event
	if r.URL.Path != pathHealth {
		g.report(r, a, time.Since(start))
	}
}

// answer finds the answer. Only GET is Sablier's; a HEAD would start a session that nobody sees.
func (g *Gateway) answer(r *http.Request) answer {
	var serve func(*http.Request) answer
	switch path := r.URL.Path; {
	case path == pathDynamic:
		serve = g.dynamic
	case path == pathBlocking:
		serve = g.blocking
	case path == pathPoke:
		serve = g.poke
	case path == pathHealth:
		serve = func(*http.Request) answer { return text("ok\n") }
	case path == pathVersion:
		serve = func(*http.Request) answer { return asJSON(map[string]string{"version": version()}) }
	case slices.Contains(pathsThemes, path):
		serve = func(*http.Request) answer { return asJSON(map[string][]string{"themes": {theme}}) }
	default:
		return refuse(noRoute())
	}
	if r.Method != http.MethodGet {
		return refuse(wrongMethod(r.Method))
	}
	return serve(r)
}

// asking reads what the request asks for.
func (g *Gateway) asking(r *http.Request) (Ask, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return Ask{}, invalid("the query cannot be read; encode it as a URL's query is")
	}
	return ParseAsk(query, g.options)
}

// dynamic answers at once. Its reader is a person in front of a browser: a page that looks again is the answer to all
// that may pass, because a problem would stay on the screen after its cause is gone.
func (g *Gateway) dynamic(r *http.Request) answer {
	ask, err := g.asking(r)
	if err != nil {
		return refuse(err)
	}
	session, err := g.look(r.Context(), ask)
	return showPage(ask, session, err).about(ask)
}

// poke answers at once, and shows nothing.
func (g *Gateway) poke(r *http.Request) answer {
	ask, err := g.asking(r)
	if err != nil {
		return refuse(err)
	}
	session, err := g.look(r.Context(), ask)
	return showSession(session, err).about(ask)
}

// blocking answers when the session is ready.
func (g *Gateway) blocking(r *http.Request) answer {
	ask, err := g.asking(r)
	if err != nil {
		return refuse(err)
	}
	session, err := g.wait(r.Context(), ask)
	return showSession(session, err).about(ask)
}

// report writes the one log line of the request: of the query only what it is about, which the parser has checked.
func (g *Gateway) report(r *http.Request, a answer, took time.Duration) {
	fields := []slog.Attr{
		slog.Any("function", api.WakeGateway), slog.String("outcome", a.outcome()), slog.Int("code", a.code),
		slog.String("took", took.Round(time.Microsecond).String()), slog.String("path", clip(r.URL.Path, 100)),
	}
	if a.subject != "" {
		fields = append(fields, slog.String("subject", a.subject))
	}
	level := slog.LevelInfo
	if a.err != nil {
		level = slog.LevelWarn
		fields = append(fields, slog.String("error", a.err.Error()))
	}
	g.log.LogAttrs(r.Context(), level, "request", fields...)
}
