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

// wish is what a proxy is configured with.
type wish struct {
	names, group      string
	blocking, timeout string // blocking is "yes" or empty
}

// plugin is what one of Sablier's plugins sends, and what it reads of the answer. All read the session's header and no JSON.
type plugin struct {
	// query is the query of the request; the path is the strategy's.
	query func(wish) string
	agent string
	// urls are the forms in which a user may write the gateway's URL, as printf formats of its origin.
	urls []string
	// redirects reports whether the plugin follows them.
	redirects bool
	// passes reports whether it passes the visitor's request on to the site.
	passes func(http.Header) bool
	// forwards is the status that a visitor gets who does not get to the site.
	forwards func(code int) int
}

var plugins = map[string]plugin{
	// sablierapp/sablier-traefik-plugin main.go and config.go: Go's client, the values in the order of their keys.
	"Traefik": {
		query: func(w wish) string {
			q := url.Values{"session_duration": {"10m"}}
			if w.blocking == "" {
				q.Set("display_name", "wake-shop@kubernetescrd") // the middleware's name where there is none
				q.Set("show_details", "true")
				q.Set("theme", "hacker-terminal")
				q.Set("refresh_frequency", "5s")
			}
			return encodeWish(q, w, strings.Split(w.names, ","))
		},
		agent: "sablier-traefik-plugin/1.3.0", redirects: true, urls: []string{"%s", "%s/", "%s/wake", "%s/wake/"},
		passes:   func(h http.Header) bool { return h.Get("X-Sablier-Session-Status") == "ready" },
		forwards: func(code int) int { return code },
	},
	// sablierapp/sablier-caddy-plugin main.go and config.go: durations as Go prints them, names separated by blanks.
	"Caddy": {
		query: func(w wish) string {
			q := url.Values{"session_duration": {"10m0s"}}
			if w.blocking == "" {
				q.Set("show_details", "false")
			}
			return encodeWish(q, w, []string{w.names}) // with commas the value goes on as it is
		},
		agent: "Go-http-client/1.1", redirects: true, urls: []string{"%s", "%s/", "%s/wake"},
		passes:   func(h http.Header) bool { return h.Get("X-Sablier-Session-Status") == "ready" },
		forwards: func(int) int { return 200 },
	},
	// sablierapp/sablier plugins/nginx/njs/sablier.js: every parameter, also those without a value; a subrequest, which nginx
	// passes on with proxy_pass and its path.
	"nginx": {
		query: func(w wish) string {
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
	// sablierapp/sablier-proxywasm-plugin main.go: an authority without a path. It passes a request on if the header is missing.
	"proxy-wasm": {
		query: func(w wish) string {
			return encodeWish(url.Values{"session_duration": {"10m0s"}}, w, strings.Split(w.names, ","))
		},
		agent: "sablier-proxywasm-plugin/1.2.0", urls: []string{"%s"},
		passes: func(h http.Header) bool {
			status, ok := h[http.CanonicalHeaderKey("x-sablier-session-status")]
			return !ok || status[0] == "ready"
		},
		forwards: func(int) int { return 200 },
	},
}

// encodeWish adds what is woken, as Go's url.Values encodes it.
func encodeWish(q url.Values, w wish, names []string) string {
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

// send asks as the plugin does. It returns what the visitor gets: "site", or the status and kind of another answer.
func (p plugin) send(t *testing.T, gateway string, w wish) string {
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
	defer response.Body.Close() //nolint:errcheck // read only
	if p.passes(response.Header) {
		return "site"
	}
	body, err := io.ReadAll(response.Body)
	if length := response.Header.Get("Content-Length"); err != nil || length != strconv.Itoa(len(body)) {
		t.Errorf("the plugin hands on Content-Length %q of %d bytes: %v", length, len(body), err)
	}
	kind, _, _ := strings.Cut(response.Header.Get("Content-Type"), ";")
	return strconv.Itoa(p.forwards(response.StatusCode)) + " " + kind
}

// TestSabliersPluginsWork: what each plugin sends leads the visitor to the site when it is ready, and never before.
func TestSabliersPluginsWork(t *testing.T) {
	group := labelled(api.GroupLabel, "shop")
	c := newCluster(t, set("web", group), set("db", group), set("cache"), set("down", asleep()), set("held", pausedSet), set("off", replicas(0, 0)))
	plain, below := httptest.NewServer(c.gateway(t, Options{})), httptest.NewServer(c.gateway(t, Options{BasePath: "/wake"}))
	t.Cleanup(plain.Close)
	t.Cleanup(below.Close)
	const page, wrong = "text/html", "application/problem+json"
	for name, row := range map[string]struct {
		wish wish
		code int
		kind string // empty for the site
	}{
		"names, ready":                 {wish: wish{names: "statefulset_shop_web_1,statefulset_shop_cache_1"}},
		"names with another delimiter": {wish: wish{names: "statefulset/shop/web/1"}},
		"an optional name":             {wish: wish{names: "statefulset_shop_web_1,optional:statefulset_shop_down_1"}},
		"a group, ready":               {wish: wish{group: "shop/shop"}},
		"blocking, ready":              {wish: wish{group: "shop/shop", blocking: "yes", timeout: "1m30s"}},
		"asleep":                       {wish{names: "statefulset_shop_down_1"}, 200, page},
		"blocking, too late":           {wish{names: "shop/down", blocking: "yes", timeout: "20ms"}, 504, wrong},
		"paused":                       {wish{names: "shop/held"}, 409, page},
		"no visit wakes it":            {wish{names: "shop/off"}, 409, page},
		"blocking, no visit wakes it":  {wish{names: "shop/off", blocking: "yes", timeout: "1m"}, 409, wrong},
		"unknown":                      {wish{names: "shop/none"}, 404, wrong},
		"an unknown group":             {wish{group: "shop/none"}, 404, wrong},
		"a group without a namespace":  {wish{group: "shop"}, 400, wrong},
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
				if got := p.send(t, strings.Replace(form, "%s", server.URL, 1), row.wish); got != want {
					t.Errorf("%s at %s, %s: the visitor gets %s, want %s", kind, form, name, got, want)
				}
			}
		}
	}
}

// TestAPluginsURLCanCarryTheToken: Go's client makes a header of the password in a URL, as those of Traefik and Caddy do.
func TestAPluginsURLCanCarryTheToken(t *testing.T) {
	c := newCluster(t, set("web"))
	server := httptest.NewServer(c.gateway(t, Options{Token: "s3cret"}))
	t.Cleanup(server.Close)
	for user, want := range map[string]string{"": "401 application/problem+json", "drydock:wrong@": "401 application/problem+json", "drydock:s3cret@": "site"} {
		at := strings.Replace(server.URL, "http://", "http://"+user, 1)
		if got := plugins["Traefik"].send(t, at, wish{names: "shop/web"}); got != want {
			t.Errorf("as %q the visitor gets %s, want %s", user, got, want)
		}
	}
}
