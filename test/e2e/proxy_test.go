//go:build cluster

package e2e

import (
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"drydock.dev/test/kit/stage"
)

// proxy is between a process and the API server, and counts the requests of the process. It ignores the renewal of the
// lease, which depends on time and not on a resize.
type proxy struct {
	*stage.Stage
	kubeconfig string

	mu       sync.Mutex
	requests map[string]float64 // by kind (read, write, watch) and by HTTP method
	last     time.Time          // of any request except a watch
	first    time.Time          // of the first write
}

func newProxy(t testing.TB, s *stage.Stage) *proxy {
	t.Helper()
	target, err := url.Parse(s.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(s.Config)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Stage: s, kubeconfig: filepath.Join(t.TempDir(), "kubeconfig"), requests: map[string]float64{}}
	pass := &httputil.ReverseProxy{Transport: transport, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.note(r)
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	if err := clientcmd.WriteToFile(pointingAt(server.URL), p.kubeconfig); err != nil {
		t.Fatal(err)
	}
	return p
}

func pointingAt(server string) clientcmdapi.Config {
	config := clientcmdapi.NewConfig()
	config.Clusters["x"] = &clientcmdapi.Cluster{Server: server}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "x"}
	config.CurrentContext = "x"
	return *config
}

// stage returns a stage whose process uses the proxy.
func (p *proxy) stage() *stage.Stage {
	return &stage.Stage{World: p.World, Kubeconfig: p.kubeconfig}
}

func (p *proxy) note(r *http.Request) {
	if strings.Contains(r.URL.Path, "/leases") {
		return
	}
	kind, now := "write", time.Now()
	switch {
	case r.URL.Query().Has("watch"):
		kind = "watch"
	case r.Method == http.MethodGet:
		kind = "read"
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests[kind]++
	if kind == "watch" {
		return
	}
	p.requests[r.Method]++
	p.last = now
	if kind == "write" && p.first.IsZero() {
		p.first = now
	}
}

func (p *proxy) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests, p.first = map[string]float64{}, time.Time{}
}

// quiet waits until there was no request for two seconds.
func (p *proxy) quiet() {
	p.Eventually("Drydock is at rest", func() string {
		p.mu.Lock()
		defer p.mu.Unlock()
		if since := time.Since(p.last); p.last.IsZero() || since < 2*time.Second {
			return "it was asking for something " + since.String() + " ago"
		}
		return ""
	})
}

func (p *proxy) counts() map[string]float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.requests)
}

func (p *proxy) firstWrite() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.first
}
