// Package gateway wakes StatefulSets for visitors who come by HTTP. It answers as Sablier's API does, so that Sablier's
// plugins for Traefik, Caddy, nginx and proxies with proxy-wasm wake sets of Drydock as they are.
//
//	in    GET /api/strategies/dynamic, blocking and poke with names or group; /api/events; /health, /version, the lists of themes
//	get   the StatefulSets that are named, and those of their groups
//	do    move drydock.dev/awake-until of one StatefulSet of each group later; nothing else
//	out   the header X-Sablier-Session-Status, with a page, JSON, a stream of events, or a problem (RFC 7807)
//	never writes on a StatefulSet that has not opted in with drydock.dev/managed and drydock.dev/idle-timeout, chooses
//	its replicas, makes a session shorter, or says ready of one that sleeps
//
// It stores nothing: gateways beside each other agree by what is written on the sets. idle-timeout decides who is awake.
package gateway

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"

	"drydock.dev/eventsource/gateway/measure"
	"drydock.dev/eventsource/gateway/share"
	"drydock.dev/shared/api"
	"drydock.dev/shared/apply"
	"drydock.dev/shared/kube"
)

// Options are the gateway's own settings. What is zero has its default.
type Options struct {
	LongestSession time.Duration `envconfig:"DRYDOCK_LONGEST_SESSION" default:"24h" desc:"longest session that a request to the wake gateway can ask for"`
	DefaultTimeout time.Duration `envconfig:"DRYDOCK_WAKE_TIMEOUT" default:"1m" desc:"how long a blocking request to the wake gateway waits where it does not say; at most 5m"`
	Namespace      string        `envconfig:"DRYDOCK_GATEWAY_NAMESPACE" desc:"namespace of the names and groups that a request to the wake gateway gives without one; empty to refuse them"`
	BasePath       string        `envconfig:"DRYDOCK_GATEWAY_BASE_PATH" desc:"path before /api at the wake gateway, as /sablier"`
	Waiters        int           `envconfig:"DRYDOCK_GATEWAY_WAITERS" default:"100" desc:"blocking requests and streams of events that a wake gateway holds open at once; more get 503"`
	Token          Secret        `envconfig:"DRYDOCK_GATEWAY_TOKEN" desc:"token that callers of the wake gateway have to show; take it from a Secret"`
	TokenFile      string        `envconfig:"DRYDOCK_GATEWAY_TOKEN_FILE" desc:"file with that token; it is read again when it changes"`
}

const (
	defaultLongestSession = 24 * time.Hour
	defaultTimeout        = time.Minute
	defaultWaiters        = 100
)

// LongestWait bounds a request that waits. No proxy before the gateway may cut it off sooner: the timeoutSeconds in
// deploy/wake-gateway are longer.
const LongestWait = 5 * time.Minute

// mostRemembered bounds the memory, because strangers decide what is asked for.
const mostRemembered = 500

// Gateway serves the strategies.
type Gateway struct {
	client     *kube.Client
	apply      *apply.Executor
	namespaces []string
	options    Options
	base       string
	token      token
	log        *slog.Logger
	meters     *measure.Meters
	views      *share.Views[[]Unit]
	seats      *share.Seats
	complained atomic.Int64 // when the last refusal was logged, in Unix seconds
	ending     context.Context
	end        context.CancelFunc
}

// New makes the gateway of the namespaces that the settings name. Names without a namespace are of the default one, or of the only
// one that there is.
func New(client *kube.Client, settings api.Settings, options Options, log *slog.Logger) *Gateway {
	options.LongestSession = cmp.Or(options.LongestSession, defaultLongestSession)
	options.DefaultTimeout = min(cmp.Or(options.DefaultTimeout, defaultTimeout), LongestWait)
	if options.Namespace == "" && len(settings.Namespaces) == 1 {
		options.Namespace = settings.Namespaces[0]
	}
	ending, end := context.WithCancel(context.Background())
	return &Gateway{
		client: client, apply: apply.New(client, api.WakeGateway, log), namespaces: settings.Namespaces,
		options: options, base: strings.TrimSuffix(path.Join("/", options.BasePath), "/"), token: token{options.Token, options.TokenFile},
		log: log, ending: ending, end: end,
		views: share.NewViews[[]Unit](mostRemembered), seats: share.NewSeats(cmp.Or(options.Waiters, defaultWaiters)),
	}
}

// Measure has the gateway measure what it does.
func (g *Gateway) Measure(meter metric.Meter) error {
	var err error
	g.meters, err = measure.New(meter)
	return err
}

// Stop ends the requests that wait, and those to come do not wait. It is for the server's RegisterOnShutdown: a
// server that shuts down waits for its requests, and does not end them.
func (g *Gateway) Stop() { g.end() }

// Paths of the API (sablierapp/sablier internal/api/start_dynamic.go, start_blocking.go, start_poke.go, instance_events.go,
// theme_list.go, health.go). The list of themes has moved twice; old clients ask at the old places.
const (
	pathDynamic  = "/api/strategies/dynamic"
	pathBlocking = "/api/strategies/blocking"
	pathPoke     = "/api/strategies/poke"
	pathEvents   = "/api/events"
	pathHealth   = "/health"
	pathVersion  = "/version"
)

var pathsThemes = []string{"/api/themes", "/api/dynamic/themes", "/api/strategies/dynamic/themes"}

// CleanPaths serves the request without double slashes and without one at the end of its path. A plugin whose URL of the gateway
// ends in a slash asks for //api/...; a mux would answer with a redirect, which not every proxy follows.
func CleanPaths(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if clean := path.Join("/", r.URL.Path); clean != r.URL.Path {
			copied := *r
			address := *r.URL
			address.Path, address.RawPath = clean, ""
			copied.URL = &address
			r = &copied
		}
		next.ServeHTTP(w, r)
	})
}

// ServeHTTP answers one request.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	route := g.route(r)
	if route == pathBlocking || route == pathEvents {
		// A server's own limit is for requests that do not wait. A writer without limits says so, and needs none.
		_ = http.NewResponseController(w).SetWriteDeadline(start.Add(LongestWait + time.Minute))
	}
	a := g.answer(r, route)
	for key, value := range a.headers() {
		w.Header().Set(key, value)
	}
	w.WriteHeader(a.code)
	if a.stream != nil {
		a.stream(w)
	} else {
		_, _ = w.Write(a.body) // a caller that went away is no event
	}
	if route != pathHealth {
		g.report(r, a, time.Since(start))
	}
}

// route returns the path of the request below the base path, or nothing if it is not below.
func (g *Gateway) route(r *http.Request) string {
	clean := path.Join("/", r.URL.Path)
	rest, ok := strings.CutPrefix(clean, g.base)
	if !ok || !strings.HasPrefix(rest, "/") {
		return ""
	}
	return rest
}

// answer finds the answer. Only GET is Sablier's; a HEAD would start a session that no visitor sees.
func (g *Gateway) answer(r *http.Request, route string) answer {
	var serve func(*http.Request) answer
	switch {
	case route == pathDynamic:
		serve = g.dynamic
	case route == pathBlocking:
		serve = g.blocking
	case route == pathPoke:
		serve = g.poke
	case route == pathEvents:
		serve = g.events
	case route == pathHealth:
		serve = func(*http.Request) answer { return text("ok\n") }
	case route == pathVersion:
		serve = func(*http.Request) answer { return asJSON(map[string]string{"version": version()}) }
	case slices.Contains(pathsThemes, route):
		serve = func(*http.Request) answer { return asJSON(map[string][]string{"themes": themes}) }
	default:
		return refuse(r.URL.Path, noRoute())
	}
	if r.Method != http.MethodGet {
		return refuse(r.URL.Path, wrongMethod(r.Method))
	}
	if err := g.token.check(r); err != nil && route != pathHealth {
		return refuse(r.URL.Path, err)
	}
	return serve(r)
}

// asking reads what the request asks for.
func (g *Gateway) asking(r *http.Request) (Ask, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return Ask{}, invalid("the query cannot be read. Encode it as a URL's query")
	}
	return ParseAsk(query, g.options)
}

// dynamic answers at once. Its reader is a person in front of a browser: a page that looks again is the answer to all
// that may pass, because a problem would stay on the screen after its cause is gone.
func (g *Gateway) dynamic(r *http.Request) answer {
	ask, err := g.asking(r)
	if err == nil && ask.Theme != "" && !slices.Contains(themes, ask.Theme) {
		err = noTheme(ask.Theme) // before anything wakes for a page that cannot be shown
	}
	if err != nil {
		return refuse(r.URL.Path, err)
	}
	session, wrote, err := g.look(r.Context(), ask)
	g.measure(r.Context(), "dynamic", ask, session)
	return showPage(r.URL.Path, ask, session, err).about(ask, wrote)
}

// poke answers at once, and shows nothing.
func (g *Gateway) poke(r *http.Request) answer {
	ask, err := g.asking(r)
	if err != nil {
		return refuse(r.URL.Path, err)
	}
	session, wrote, err := g.look(r.Context(), ask)
	g.measure(r.Context(), "poke", ask, session)
	return showSession(r.URL.Path, ask, session, err).about(ask, wrote)
}

// blocking answers when the session is ready.
func (g *Gateway) blocking(r *http.Request) answer {
	ask, err := g.asking(r)
	if err != nil {
		return refuse(r.URL.Path, err)
	}
	session, wrote, err := g.wait(r.Context(), ask)
	g.measure(r.Context(), "blocking", ask, session)
	return showSession(r.URL.Path, ask, session, err).about(ask, wrote)
}
