package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/traefik/traefik/v3/pkg/config/dynamic"
)

// backend starts a server that answers with its name and the request.
func backend(t *testing.T, name string) string {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		fmt.Fprintf(w, "%s %s %s %s revision=%s added=%s body=%s", name, r.Proto, r.Host, r.URL.Path, r.Header.Get("Revision"),
			r.Header.Get("Added"), body)
	}))
	server.Config.Protocols = plainProtocols()
	server.Start()
	t.Cleanup(server.Close)
	return server.URL
}

// route adds the configuration of one path of an Ingress, as the provider writes it.
func route(c *dynamic.HTTPConfiguration, name, entryPoint, rule string, weights map[string]int, urls map[string]string) {
	shared := &dynamic.WeightedRoundRobin{}
	for backend, weight := range weights {
		key := name + "-" + backend
		c.Services[key] = &dynamic.Service{LoadBalancer: &dynamic.ServersLoadBalancer{Servers: []dynamic.Server{{URL: urls[backend]}}}}
		shared.Services = append(shared.Services, dynamic.WRRService{Name: key, Weight: &weight, Headers: map[string]string{"Revision": backend}})
	}
	c.Services[name] = &dynamic.Service{Weighted: shared}
	c.Middlewares[name] = &dynamic.Middleware{Headers: &dynamic.Headers{CustomRequestHeaders: map[string]string{"Added": name}}}
	c.Routers[name] = &dynamic.Router{EntryPoints: []string{entryPoint}, Rule: rule, Service: name, Middlewares: []string{name}}
}

func newConfiguration() *dynamic.HTTPConfiguration {
	return &dynamic.HTTPConfiguration{
		Routers: map[string]*dynamic.Router{}, Services: map[string]*dynamic.Service{}, Middlewares: map[string]*dynamic.Middleware{},
	}
}

func TestRequestGoesToTheBackendOfItsRule(t *testing.T) {
	urls := map[string]string{"one": backend(t, "one"), "two": backend(t, "two")}
	urls["grpc"] = strings.Replace(backend(t, "grpc"), "http:", "h2c:", 1)
	urls["odd"] = "ftp://127.0.0.1"
	c := newConfiguration()
	route(c, "a", private, "(Host(`a.ns.svc.cluster.local`) || Host(`a.ns`))", map[string]int{"one": 100, "two": 0}, urls)
	route(c, "b", private, "(Host(`b.ns`))", map[string]int{"two": 100}, urls)
	route(c, "path", private, "(Host(`b.ns`)) && PathPrefix(`/deep`)", map[string]int{"one": 100}, urls)
	route(c, "header", private, "(Host(`b.ns`)) && (Header(`Tag`,`one`))", map[string]int{"one": 100}, urls)
	route(c, "outside", public, "(Host(`c.example.com`))", map[string]int{"one": 100}, urls)
	route(c, "stream", private, "(Host(`g.ns`))", map[string]int{"grpc": 100}, urls)
	route(c, "unreadable", private, "Host(", map[string]int{"one": 100}, urls)
	route(c, "unknown", private, "(Host(`f.ns`))", map[string]int{"odd": 100}, urls)
	route(c, "nowhere", private, "(Host(`n.ns`))", nil, urls)
	var r router
	r.configure(private, c)
	entry := httptest.NewServer(&r)
	defer entry.Close()

	tests := map[string]struct {
		host, path, tag string
		want            string
	}{
		"a host": {"a.ns.svc.cluster.local", "/x", "", "200 one HTTP/1.1 a.ns.svc.cluster.local /x revision=one " +
			"added=a body=question"},
		"its other name, with a port":      {"a.ns:80", "/", "", "200 one HTTP/1.1 a.ns:80 / revision=one added=a body=question"},
		"another host":                     {"b.ns", "/", "", "200 two HTTP/1.1 b.ns / revision=two added=b body=question"},
		"the longer rule wins: a path":     {"b.ns", "/deep/er", "", "200 one HTTP/1.1 b.ns /deep/er revision=one added=path body=question"},
		"the longer rule wins: a header":   {"b.ns", "/", "one", "200 one HTTP/1.1 b.ns / revision=one added=header body=question"},
		"a backend that speaks HTTP/2":     {"g.ns", "/", "", "200 grpc HTTP/2.0 g.ns / revision=grpc added=stream body=question"},
		"a host of the other entry point":  {"c.example.com", "/", "", "404 404 page not found"},
		"a host without a route":           {"d.ns", "/", "", "404 404 page not found"},
		"a backend with an unknown scheme": {"f.ns", "/", "", "404 404 page not found"},
		"a route without revisions":        {"n.ns", "/", "", "503 the route has no revision"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := ask(t, entry.URL+test.path, test.host, test.tag); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func ask(t *testing.T, url, host, tag string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("question"))
	if err != nil {
		t.Fatal(err)
	}
	request.Host = host
	request.Header.Set("Tag", tag)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d %s", response.StatusCode, strings.TrimSpace(string(body)))
}

func TestRequestBeforeTheFirstConfigurationIsUnavailable(t *testing.T) {
	answer := httptest.NewRecorder()
	new(router).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/", nil))
	if answer.Code != http.StatusServiceUnavailable {
		t.Errorf("got %d", answer.Code)
	}
}

func TestUnreachableBackendIsABadGateway(t *testing.T) {
	c := newConfiguration()
	route(c, "a", private, "Host(`a.ns`)", map[string]int{"gone": 1}, map[string]string{"gone": "http://127.0.0.1:1"})
	var r router
	r.configure(private, c)
	answer := httptest.NewRecorder()
	r.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "http://a.ns/", nil))
	if answer.Code != http.StatusBadGateway {
		t.Errorf("got %d", answer.Code)
	}
}

func TestSharesGetRequestsByWeight(t *testing.T) {
	shares := []share{{weight: 0, headers: map[string]string{"n": "none"}}, {weight: 3, headers: map[string]string{"n": "most"}},
		{weight: 1, headers: map[string]string{"n": "few"}}}
	var got []string
	for number := range 4 {
		got = append(got, pick(shares, number).headers["n"])
	}
	if text := strings.Join(got, " "); text != "most most most few" {
		t.Errorf("got %s", text)
	}
}
