package gateway

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"drydock.dev/shared/api"
)

// pluginConfig is the configuration of a plugin in a proxy.
type pluginConfig struct {
	names, group      string
	blocking, timeout string // blocking is "yes" or empty
}

// plugin describes the requests of one of Sablier's plugins, and how it handles the answer. All read the session header, and no JSON.
type plugin struct {
	// query returns the query of the request. The path is the path of the strategy.
	query func(pluginConfig) string
	agent string
	// urls are the accepted forms of the gateway's URL, as printf formats of its origin.
	urls []string
	// redirects is true if the plugin follows redirects.
	redirects bool
	// passes reports whether the plugin forwards the visitor's request to the site.
	passes func(http.Header) bool
	// forwards returns the status for a visitor whose request is not forwarded.
	forwards func(code int) int
}

var plugins = map[string]plugin{
	// sablierapp/sablier-traefik-plugin main.go and config.go: Go's client, with sorted keys.
	"Traefik": {
		query: func(w pluginConfig) string {
			q := url.Values{"session_duration": {"10m"}}
			if w.blocking == "" {
				q.Set("display_name", "wake-shop@kubernetescrd") // the default is the middleware's name
				q.Set("show_details", "true")
				q.Set("theme", "hacker-terminal")
				q.Set("refresh_frequency", "5s")
			}
			return encodeConfig(q, w, strings.Split(w.names, ","))
		},
		agent: "sablier-traefik-plugin/1.3.0", redirects: true, urls: []string{"%s", "%s/", "%s/wake", "%s/wake/"},
		passes:   func(h http.Header) bool { return h.Get("X-Sablier-Session-Status") == "ready" },
		forwards: func(code int) int { return code },
	},
	// sablierapp/sablier-caddy-plugin main.go and config.go: durations in Go's format, names separated by spaces.
	"Caddy": {
		query: func(w pluginConfig) string {
			q := url.Values{"session_duration": {"10m0s"}}
			if w.blocking == "" {
				q.Set("show_details", "false")
			}
			return encodeConfig(q, w, []string{w.names}) // a value with commas is not split
		},
		agent: "Go-http-client/1.1", redirects: true, urls: []string{"%s", "%s/", "%s/wake"},
		passes:   func(h http.Header) bool { return h.Get("X-Sablier-Session-Status") == "ready" },
		forwards: func(int) int { return 200 },
	},
	// sablierapp/sablier plugins/nginx/njs/sablier.js: every parameter, even without a value. A subrequest, which nginx forwards with
	// proxy_pass and its path.
	"nginx": {
		query: func(w pluginConfig) string {
			pairs := []string{"session_duration="}
			if w.blocking == "" {
				pairs = append(pairs, "display_name=", "theme=", "refresh_frequency=", "show_details=")
			} else {
				pairs = append(pairs, "timeout="+w.timeout)
			}
			if w.group != "" {
				return strings.Join(append(pairs, "group="+url.QueryEscape(w.group)), "&")
			}
			for name := range strings.SplitSeq(w.names, ",") {
				pairs = append(pairs, "names="+url.QueryEscape(name))
			}
			return strings.Join(pairs, "&")
		},
		urls:     []string{"%s", "%s/", "%s/wake"},
		passes:   func(h http.Header) bool { return h.Get("X-Sablier-Session-Status") == "ready" },
		forwards: func(int) int { return 200 },
	},
	// sablierapp/sablier-proxywasm-plugin main.go: an authority without a path. Without the header, the plugin forwards the request.
	"proxy-wasm": {
		query: func(w pluginConfig) string {
			return encodeConfig(url.Values{"session_duration": {"10m0s"}}, w, strings.Split(w.names, ","))
		},
		agent: "sablier-proxywasm-plugin/1.2.0", urls: []string{"%s"},
		passes: func(h http.Header) bool {
			status, ok := h[http.CanonicalHeaderKey("x-sablier-session-status")]
			return !ok || status[0] == "ready"
		},
		forwards: func(int) int { return 200 },
	},
}

// encodeConfig adds the names or the group in the encoding of url.Values.
func encodeConfig(q url.Values, w pluginConfig, names []string) string {
	if w.group != "" {
		q.Set("group", w.group)
	} else {
		q["names"] = names
	}
	if w.timeout != "" {
		q.Set("timeout", w.timeout)
	}
	return q.Encode()
}

// send sends the plugin's request. It returns the visitor's result: "site", or the status and media type of another answer.
func (p plugin) send(t *testing.T, gateway string, w pluginConfig) string {
	t.Helper()
	strategy := "dynamic"
	if w.blocking != "" {
		strategy = "blocking"
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, gateway+"/api/strategies/"+strategy+"?"+p.query(w), nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("User-Agent", p.agent)
	client := http.Client{}
	if !p.redirects {
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close() // read only
	if p.passes(response.Header) {
		return "site"
	}
	body, err := io.ReadAll(response.Body)
	if length := response.Header.Get("Content-Length"); err != nil || length != strconv.Itoa(len(body)) {
		t.Errorf("the plugin forwards Content-Length %q of %d bytes: %v", length, len(body), err)
	}
	kind, _, _ := strings.Cut(response.Header.Get("Content-Type"), ";")
	return strconv.Itoa(p.forwards(response.StatusCode)) + " " + kind
}

// TestPluginsForwardOnlyToReadySites: each plugin forwards the visitor to the site when it is ready, and never earlier.
func TestPluginsForwardOnlyToReadySites(t *testing.T) {
	group := labelled(api.GroupLabel, "shop")
	c := newCluster(t, set("web", group), set("db", group), set("cache"), set("down", asleep()), set("held", pausedSet),
		set("off", replicas(0, 0)))
	plain, below := httptest.NewServer(c.gateway(t, Options{})), httptest.NewServer(c.gateway(t, Options{BasePath: "/wake"}))
	t.Cleanup(plain.Close)
	t.Cleanup(below.Close)
	const page, wrong = "text/html", "application/problem+json"
	for name, row := range map[string]struct {
		pluginConfig pluginConfig
		code         int
		kind         string // empty for the site
	}{
		"names, ready":                  {pluginConfig: pluginConfig{names: "statefulset_shop_web_1,statefulset_shop_cache_1"}},
		"names with another delimiter":  {pluginConfig: pluginConfig{names: "statefulset/shop/web/1"}},
		"an optional name":              {pluginConfig: pluginConfig{names: "statefulset_shop_web_1,optional:statefulset_shop_down_1"}},
		"a group, ready":                {pluginConfig: pluginConfig{group: "shop/shop"}},
		"blocking, ready":               {pluginConfig: pluginConfig{group: "shop/shop", blocking: "yes", timeout: "1m30s"}},
		"asleep":                        {pluginConfig{names: "statefulset_shop_down_1"}, 200, page},
		"blocking, too late":            {pluginConfig{names: "shop/down", blocking: "yes", timeout: "20ms"}, 504, wrong},
		"paused":                        {pluginConfig{names: "shop/held"}, 409, page},
		"a visit does not wake the set": {pluginConfig{names: "shop/off"}, 409, page},
		"blocking, a visit does not wake the set": {pluginConfig{names: "shop/off", blocking: "yes", timeout: "1m"}, 409, wrong},
		"unknown":                     {pluginConfig{names: "shop/none"}, 404, wrong},
		"an unknown group":            {pluginConfig{group: "shop/none"}, 404, wrong},
		"a group without a namespace": {pluginConfig{group: "shop"}, 400, wrong},
	} {
		for kind, p := range plugins {
			for _, form := range p.urls {
				server := plain
				if strings.Contains(form, "/wake") {
					server = below
				}
				want := "site"
				if row.kind != "" {
					want = strconv.Itoa(p.forwards(row.code)) + " " + row.kind
				}
				if got := p.send(t, strings.Replace(form, "%s", server.URL, 1), row.pluginConfig); got != want {
					t.Errorf("%s at %s, %s: the visitor gets %s, want %s", kind, form, name, got, want)
				}
			}
		}
	}
}

// TestPluginURLCanContainToken: Go's client, as in the plugins for Traefik and Caddy, turns the password of a URL into a header.
func TestPluginURLCanContainToken(t *testing.T) {
	c := newCluster(t, set("web"))
	server := httptest.NewServer(c.gateway(t, Options{Token: "s3cret"}))
	t.Cleanup(server.Close)
	for user, want := range map[string]string{"": "401 application/problem+json", "drydock:wrong@": "401 application/problem+json",
		"drydock:s3cret@": "site"} {
		at := strings.Replace(server.URL, "http://", "http://"+user, 1)
		if got := plugins["Traefik"].send(t, at, pluginConfig{names: "shop/web"}); got != want {
			t.Errorf("as %q the visitor gets %s, want %s", user, got, want)
		}
	}
}
