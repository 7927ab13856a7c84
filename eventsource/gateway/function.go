// Package gateway wakes StatefulSets for HTTP requests. It implements the API of Sablier, so that Sablier's plugins for Traefik,
// Caddy, nginx and proxy-wasm wake Drydock's sets without a change.
//
//	in    GET /api/strategies/dynamic, blocking and poke with names or group; /api/events; /health, /version, the lists of themes
//	get   the named StatefulSets and their groups
//	do    move drydock.dev/awake-until of one StatefulSet of each group later; nothing else
//	out   the header X-Sablier-Session-Status, with a page, JSON, a stream of events, or a problem (RFC 7807)
//	never writes to a StatefulSet that has not opted in with drydock.dev/managed and drydock.dev/idle-timeout; never chooses
//	a replica count, shortens a session, or reports a sleeping set as ready
//
// The gateway is stateless: several gateways share the annotations of the sets. idle-timeout decides which sets are awake.
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
	"drydock.dev/shared/token"
)

// Options are the gateway's own settings. A zero value selects the default.
type Options struct {
	LongestSession time.Duration `envconfig:"DRYDOCK_LONGEST_SESSION" default:"24h" desc:"longest session that a request to the wake gateway can ask for"`
	DefaultTimeout time.Duration `envconfig:"DRYDOCK_WAKE_TIMEOUT" default:"1m" desc:"default waiting time of a blocking request to the wake gateway; at most 5m"`
	Namespace      string        `envconfig:"DRYDOCK_GATEWAY_NAMESPACE" desc:"default namespace of names and groups in a request to the wake gateway; empty: a request without namespace is refused"`
	BasePath       string        `envconfig:"DRYDOCK_GATEWAY_BASE_PATH" desc:"path before /api at the wake gateway, for example /sablier"`
	Waiters        int           `envconfig:"DRYDOCK_GATEWAY_WAITERS" default:"100" desc:"blocking requests and streams of events that a wake gateway holds open at once; more get 503"`
	Token          Secret        `envconfig:"DRYDOCK_GATEWAY_TOKEN" desc:"token that callers of the wake gateway send; take it from a Secret"`
	TokenFile      string        `envconfig:"DRYDOCK_GATEWAY_TOKEN_FILE" desc:"file with the token, which is read at each request; it overrides DRYDOCK_GATEWAY_TOKEN"`
}

const (
	defaultLongestSession = 24 * time.Hour
	defaultTimeout        = time.Minute
	defaultWaiters        = 100
)

// LongestWait limits how long a request waits. A proxy before the gateway needs a longer timeout, such as the timeoutSeconds in
// deploy/wake-gateway.
const LongestWait = 5 * time.Minute

// maxCached and maxCachedMembers limit the cached sessions, because anonymous callers choose them. A cached member needs about 1 KiB.
const (
	maxCached        = 500
	maxCachedMembers = 10_000
	// maxReads limits the requests whose sets are read at the same time, because a set can be large. The others wait.
	maxReads = 8
)

// Gateway serves the strategies.
type Gateway struct {
	client      *kube.Client
	apply       *apply.Executor
	namespaces  []string
	options     Options
	base        string
	token       token.Token
	log         *slog.Logger
	meters      *measure.Meters
	cache       *share.Cache[[]Unit]
	waiters     *share.Limiter
	reads       chan struct{} // has a value for each read at the moment
	lastWarning atomic.Int64  // Unix time in seconds of the last logged refusal
	ending      context.Context
	end         context.CancelFunc
}

// New returns the gateway for the namespaces of the settings. A name without a namespace belongs to the default namespace. If the
// settings list exactly one namespace, it is the default.
func New(client *kube.Client, settings api.Settings, options Options, log *slog.Logger) *Gateway {
	options.LongestSession = cmp.Or(options.LongestSession, defaultLongestSession)
	options.DefaultTimeout = min(cmp.Or(options.DefaultTimeout, defaultTimeout), LongestWait)
	if options.Namespace == "" && len(settings.Namespaces) == 1 {
		options.Namespace = settings.Namespaces[0]
	}
	ending, end := context.WithCancel(context.Background())
	return &Gateway{
		client: client, apply: apply.New(client, api.WakeGateway, log), namespaces: settings.Namespaces,
		options: options, base: strings.TrimSuffix(path.Join("/", options.BasePath), "/"),
		token: token.Token{Value: options.Token, File: options.TokenFile, FileSetting: "DRYDOCK_GATEWAY_TOKEN_FILE"},
		log:   log, ending: ending, end: end,
		cache: share.NewCache(maxCached, maxCachedMembers, membersOf), waiters: share.NewLimiter(cmp.Or(options.Waiters, defaultWaiters)),
		reads: make(chan struct{}, maxReads),
	}
}

// Measure enables the gateway's metrics.
func (g *Gateway) Measure(meter metric.Meter) error {
	var err error
	g.meters, err = measure.New(meter)
	return err
}

// Stop ends the waiting requests, and later requests do not wait. Register it with the server's RegisterOnShutdown, because a
// server that shuts down waits for its requests without ending them.
func (g *Gateway) Stop() { g.end() }

// ServeHTTP answers a request.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	route := g.route(r)
	if route == pathBlocking || route == pathEvents {
		// The server's own limit is for requests that do not wait. The error means that the writer has no limit.
		_ = http.NewResponseController(w).SetWriteDeadline(start.Add(LongestWait + time.Minute))
	}
	a := g.answer(r, route)
	write(w, a)
	if route != pathHealth {
		g.report(r, a, time.Since(start))
	}
}

func write(w http.ResponseWriter, a answer) {
	for key, value := range a.headers() {
		w.Header().Set(key, value)
	}
	w.WriteHeader(a.code)
	if a.stream != nil {
		a.stream(w)
		return
	}
	_, _ = w.Write(a.body) // the caller may have disconnected
}

// answer returns the answer to the request. Like Sablier it serves only GET: a HEAD would start a session that no visitor sees.
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
		serve = func(*http.Request) answer { return plainText("ok\n") }
	case route == pathVersion:
		serve = func(*http.Request) answer { return asJSON(map[string]string{"version": version()}) }
	case slices.Contains(pathsThemes, route):
		serve = func(*http.Request) answer { return asJSON(map[string][]string{"themes": themes}) }
	default:
		return refuse(r.URL.Path, unknownPath())
	}
	if r.Method != http.MethodGet {
		return refuse(r.URL.Path, wrongMethod(r.Method))
	}
	if err := checkToken(g.token, r); err != nil && route != pathHealth {
		return refuse(r.URL.Path, err)
	}
	return serve(r)
}

// Guard returns a handler that serves the page of metrics to callers with the token. The page names sets and their visits, so a gateway
// without a token does not serve it. Without a page it returns nil.
func (g *Gateway) Guard(page http.Handler) http.Handler {
	if page == nil {
		return nil
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := checkToken(g.token, r)
		if !g.token.Required() {
			err = metricsNeedToken()
		}
		if err != nil {
			write(w, refuse(r.URL.Path, err))
			return
		}
		page.ServeHTTP(w, r)
	})
}

// parseQuery reads the query of the request.
func (g *Gateway) parseQuery(r *http.Request) (Query, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return Query{}, invalid("the query cannot be parsed. Encode it as a URL query")
	}
	return ParseQuery(values, g.options)
}

// dynamic answers at once with a page for a browser. If the cause of an error may pass, the page reloads. A problem document would
// stay on the screen after its cause is gone.
func (g *Gateway) dynamic(r *http.Request) answer {
	query, err := g.parseQuery(r)
	if err == nil && query.Theme != "" && !slices.Contains(themes, query.Theme) {
		err = unknownTheme(query.Theme) // no set wakes for an invalid request
	}
	if err != nil {
		return refuse(r.URL.Path, err)
	}
	session, wrote, err := g.keepAwake(r.Context(), query)
	g.measure(r.Context(), "dynamic", query, session)
	return showPage(r.URL.Path, query, session, err).withSubject(query, wrote)
}

// poke answers at once with JSON.
func (g *Gateway) poke(r *http.Request) answer {
	query, err := g.parseQuery(r)
	if err != nil {
		return refuse(r.URL.Path, err)
	}
	session, wrote, err := g.keepAwake(r.Context(), query)
	g.measure(r.Context(), "poke", query, session)
	return showSession(r.URL.Path, query, session, err).withSubject(query, wrote)
}

// blocking answers with JSON when the session is ready.
func (g *Gateway) blocking(r *http.Request) answer {
	query, err := g.parseQuery(r)
	if err != nil {
		return refuse(r.URL.Path, err)
	}
	session, wrote, err := g.wait(r.Context(), query)
	g.measure(r.Context(), "blocking", query, session)
	return showSession(r.URL.Path, query, session, err).withSubject(query, wrote)
}

// CleanPaths removes double and trailing slashes from the path before it serves the request. If the gateway's URL in a plugin ends in
// a slash, the plugin requests //api/.... A mux would answer with a redirect, and not every proxy follows it.
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

// route returns the path of the request below the base path, or "" if the path is outside.
func (g *Gateway) route(r *http.Request) string {
	clean := path.Join("/", r.URL.Path)
	rest, ok := strings.CutPrefix(clean, g.base)
	if !ok || !strings.HasPrefix(rest, "/") {
		return ""
	}
	return rest
}

// Paths of the API (sablierapp/sablier internal/api/start_dynamic.go, start_blocking.go, start_poke.go, instance_events.go,
// theme_list.go, health.go). The list of themes moved twice, and old clients use the old paths.
const (
	pathDynamic  = "/api/strategies/dynamic"
	pathBlocking = "/api/strategies/blocking"
	pathPoke     = "/api/strategies/poke"
	pathEvents   = "/api/events"
	pathHealth   = "/health"
	pathVersion  = "/version"
)

var pathsThemes = []string{"/api/themes", "/api/dynamic/themes", "/api/strategies/dynamic/themes"}
