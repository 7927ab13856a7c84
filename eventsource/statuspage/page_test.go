package statuspage

import (
	"fmt"
	"html"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"drydock.dev/shared/api"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/overview"
	"drydock.dev/test/kit/build"
)

func TestPageAnswersByPathAndMethod(t *testing.T) {
	p := newCluster(t, resizing(0)).page(t)
	web := "/sets/" + build.Namespace + "/web"
	for name, row := range map[string]struct {
		method, url string
		code        int
		contains    string
	}{
		"the list":                     {http.MethodGet, "/", 200, web},
		"a filtered list":              {http.MethodGet, "/?q=none", 200, "No StatefulSet matches"},
		"a set":                        {http.MethodGet, web, 200, "Quiescing"},
		"a set that does not exist":    {http.MethodGet, "/sets/shop/none", 404, "does not exist"},
		"a name that is no name":       {http.MethodGet, "/sets/shop/..%2fweb", 404, "does not exist"},
		"a namespace without a set":    {http.MethodGet, "/sets/shop", 404, "does not exist"},
		"another path":                 {http.MethodGet, "/metrics", 404, "does not exist"},
		"the script":                   {http.MethodGet, "/page.js", 200, "EventSource"},
		"the style":                    {http.MethodGet, "/page.css", 200, "prefers-color-scheme"},
		"health":                       {http.MethodGet, "/health", 200, "ok"},
		"an unknown filter":            {http.MethodGet, "/?show=x", 400, "query"},
		"a page before the first":      {http.MethodGet, "/?page=0", 400, "query"},
		"a page that is no number":     {http.MethodGet, "/?page=x", 400, "query"},
		"a long search":                {http.MethodGet, "/?q=" + strings.Repeat("x", 101), 400, "query"},
		"a query that cannot be read":  {http.MethodGet, "/?q=%zz", 400, "query"},
		"HEAD":                         {http.MethodHead, "/", 405, "GET"},
		"POST":                         {http.MethodPost, "/", 405, "GET"},
		"POST of health":               {http.MethodPost, "/health", 405, "GET"},
		"DELETE of a set":              {http.MethodDelete, web, 405, "GET"},
		"events with an invalid query": {http.MethodGet, "/events?show=x", 400, "query"},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequestWithContext(t.Context(), row.method, row.url, nil)
			r.SetBasicAuth("any", secret)
			w := httptest.NewRecorder()
			p.ServeHTTP(w, r)
			if w.Code != row.code || !strings.Contains(w.Body.String(), row.contains) {
				t.Errorf("%d %.300s, want %d with %s", w.Code, w.Body, row.code, row.contains)
			}
			if row.code == 405 && w.Header().Get("Allow") != "GET" {
				t.Error("the header Allow is missing")
			}
			for key := range securityHeaders {
				if w.Header().Get(key) == "" {
					t.Errorf("header %s is missing", key)
				}
			}
			if w.Header().Get("Set-Cookie") != "" {
				t.Error("a cookie is set")
			}
		})
	}
}

// TestOnlyTokenOpensThePage: without a configured token, the page shows nothing, because it has the names of all namespaces.
func TestOnlyTokenOpensThePage(t *testing.T) {
	c := newCluster(t, resizing(0))
	folder := t.TempDir()
	file, empty := filepath.Join(folder, "token"), filepath.Join(folder, "empty")
	for path, content := range map[string]string{file: secret + "\n", empty: ""} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, row := range map[string]struct {
		access Access
		header string
		code   int
	}{
		"no token is configured":              {Access{}, "", 403},
		"no token is configured, one is sent": {Access{}, "Bearer x", 403},
		"an empty token is sent":              {Access{}, "Bearer ", 403},
		"no token is sent":                    {Access{Token: secret}, "", 401},
		"a wrong token":                       {Access{Token: secret}, "Bearer wrong", 401},
		"the right token":                     {Access{Token: secret}, "Bearer " + secret, 200},
		"the token of the file":               {Access{TokenFile: file}, "Bearer " + secret, 200},
		"a wrong token for the file":          {Access{TokenFile: file}, "Bearer wrong", 401},
		"a setting with a line break":         {Access{Token: secret + "\n"}, "Bearer " + secret, 200},
		"a setting with only a line break":    {Access{Token: "\n"}, "Bearer ", 503},
		"an empty file":                       {Access{TokenFile: empty}, "Bearer ", 503},
		"no file":                             {Access{TokenFile: folder + "/none"}, "Bearer " + secret, 503},
	} {
		t.Run(name, func(t *testing.T) {
			p := New(kube.NewClient(&rest.Config{Host: c.url}), api.Settings{}, row.access, slog.New(slog.DiscardHandler))
			t.Cleanup(p.Stop)
			for _, path := range []string{"/", "/sets/" + build.Namespace + "/web", "/page.js", "/none", "/events"} {
				if path == "/events" && row.code == 200 {
					continue // it does not end
				}
				r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
				r.Header.Set("Authorization", row.header)
				w := httptest.NewRecorder()
				p.ServeHTTP(w, r)
				want := row.code
				if path == "/none" && want == 200 {
					want = 404
				}
				body := w.Body.String()
				if w.Code != want || want != 200 && (strings.Contains(body, "Moving") || strings.Contains(body, folder)) {
					t.Errorf("%s: %d %s", path, w.Code, body)
				}
				if want == 401 && !strings.HasPrefix(w.Header().Get("WWW-Authenticate"), "Basic ") {
					t.Error("a browser does not ask for the password")
				}
				if want == 403 && !strings.Contains(body, "kubectl -n drydock create secret generic drydock-status") {
					t.Errorf("%s does not say how to create the token: %s", path, body)
				}
			}
		})
	}
}

// TestProblemIsReadable: a browser gets a page, a program gets JSON.
func TestProblemIsReadable(t *testing.T) {
	p := newCluster(t, resizing(0)).page(t)
	for accept, kind := range map[string]string{"text/html,*/*": htmlKind, "*/*": "application/problem+json"} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/none", nil)
		r.SetBasicAuth("any", secret)
		r.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		p.ServeHTTP(w, r)
		if w.Code != 404 || w.Header().Get("Content-Type") != kind {
			t.Errorf("%s: %d %s", accept, w.Code, w.Header().Get("Content-Type"))
		}
	}
}

// TestCommandInProblemCanBeCopiedFromBrowser: JSON would show a backslash before each quote of the command.
func TestCommandInProblemCanBeCopiedFromBrowser(t *testing.T) {
	p := New(kube.NewClient(&rest.Config{}), api.Settings{}, Access{}, slog.New(slog.DiscardHandler))
	t.Cleanup(p.Stop)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/<script>", nil)
	r.Header.Set("Accept", "text/html,application/xhtml+xml")
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	body := w.Body.String()
	if w.Code != 403 || strings.Contains(body, `\"`) || strings.Contains(body, "<script>") ||
		!strings.Contains(html.UnescapeString(body), `--from-literal=token="$(openssl rand -hex 24)"`) {
		t.Errorf("%d %s", w.Code, body)
	}
}

// TestErrorOfAPIServerIsNotShown: it contains addresses of the cluster.
func TestErrorOfAPIServerIsNotShown(t *testing.T) {
	c := newCluster(t, resizing(0))
	p := c.page(t)
	c.fail.Store(true)
	for _, path := range []string{"/", "/sets/" + build.Namespace + "/web"} {
		w := get(t, p, path)
		if w.Code != 503 || strings.Contains(w.Body.String(), "10.0.0.1") || w.Header().Get("Retry-After") == "" {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

// TestPageShowsOnlySetsThatItMayShow: opted-in sets in the namespaces of the settings.
func TestPageShowsOnlySetsThatItMayShow(t *testing.T) {
	c := newCluster(t, build.Lists{"statefulsets": {build.Set("web"), build.Set("private", build.Label(api.ManagedLabel, "false"))}})
	for name, row := range map[string]struct {
		namespaces []string
		set        string
		code       int
	}{
		"an opted-in set":         {nil, "web", 200},
		"a set that did not":      {nil, "private", 404},
		"an allowed namespace":    {[]string{"other", build.Namespace}, "web", 200},
		"a forbidden namespace":   {[]string{"other"}, "web", 404},
		"a set that was deleted":  {nil, "gone", 404},
		"the namespace is a part": {[]string{build.Namespace + "x"}, "web", 404},
	} {
		p := c.page(t, row.namespaces...)
		if w := get(t, p, fmt.Sprintf("/sets/%s/%s", build.Namespace, row.set)); w.Code != row.code {
			t.Errorf("%s: %d, want %d", name, w.Code, row.code)
		}
		list := get(t, p, "/").Body.String()
		if strings.Contains(list, "private") || strings.Contains(list, ">web<") != (row.code == 200 || row.namespaces == nil) {
			t.Errorf("%s: %s", name, list)
		}
	}
}

// TestTenThousandSetsAreShown reads and renders the list of a large cluster.
func TestTenThousandSetsAreShown(t *testing.T) {
	objects := build.Lists{}
	for i := range 10_000 {
		objects["statefulsets"] = append(objects["statefulsets"], build.Set(fmt.Sprintf("set-%05d", i)))
	}
	p := newCluster(t, objects).page(t)
	body := get(t, p, "/?page=100").Body.String()
	if !strings.Contains(body, "10000 StatefulSets") || !strings.Contains(body, "set-09999") || len(body) > 100<<10 {
		t.Errorf("%d bytes: %.500s", len(body), body)
	}
}

// TestHugePageNumberIsRefused: rendering multiplies the number of the page. An overflow would panic in a stream of events, and no viewer
// could be shown a page.
func TestHugePageNumberIsRefused(t *testing.T) {
	for _, page := range []string{strconv.Itoa(maxPage + 1), "150000000000000000"} {
		if v, err := viewOfEvents("page=" + page); err == nil {
			t.Errorf("page %s is accepted: %+v", page, v)
		}
	}
	v, err := viewOfEvents("page=" + strconv.Itoa(maxPage))
	if err != nil {
		t.Fatalf("the last page is refused: %v", err)
	}
	list := listOf(v, overview.Document{Sets: []overview.Set{{Namespace: "shop", Name: "web"}}}, time.Now())
	if len(list.Rows) != 0 {
		t.Errorf("page %d has rows: %+v", maxPage, list.Rows)
	}
}
