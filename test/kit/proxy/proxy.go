// Package proxy counts the requests of a process to the API server.
package proxy

import (
	"io"
	"log"
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
)

// Kind is the kind of a request.
type Kind string

const (
	Read  Kind = "read"
	Write Kind = "write"
	Watch Kind = "watch"
)

// Request is a request that has passed.
type Request struct {
	At     time.Time
	Kind   Kind
	Method string
	Path   string
	// User is the account that the process impersonates, if any.
	User string
	// Status is the status of the response.
	Status int
}

// IsList reports whether the request reads a list of objects.
func (r Request) IsList() bool {
	parts := strings.Split(strings.Trim(r.Path, "/"), "/")
	names := parts[min(2, len(parts)):] // after api/v1
	if parts[0] == "apis" {
		names = parts[min(3, len(parts)):] // after apis/GROUP/VERSION
	}
	if len(names) > 2 && names[0] == "namespaces" {
		names = names[2:]
	}
	return r.Kind == Read && len(names) == 1
}

// Proxy is between a process and the API server. It ignores the renewal of leases, which depends on time and not on work.
type Proxy struct {
	// Kubeconfig is the path of the file with which a process reaches the proxy.
	Kubeconfig string

	mu       sync.Mutex
	requests []*Request
}

// Start starts a proxy with the rights of config. It ends with the test.
func Start(t testing.TB, config *rest.Config) *Proxy {
	t.Helper()
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	pass := &httputil.ReverseProxy{Transport: transport, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := &statusWriter{ResponseWriter: w}
		noted := p.note(r)
		pass.ServeHTTP(answer, r)
		p.answered(noted, answer.status)
	}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	if err := clientcmd.WriteToFile(pointingAt(server.URL), p.Kubeconfig); err != nil {
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

// statusWriter remembers the status of a response.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController flush a watch.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// note records the request. It returns nil if the request does not count.
func (p *Proxy) note(r *http.Request) *Request {
	if strings.Contains(r.URL.Path, "/leases") {
		return nil
	}
	request := &Request{At: time.Now(), Kind: Write, Method: r.Method, Path: r.URL.Path, User: r.Header.Get("Impersonate-User")}
	switch {
	case r.URL.Query().Has("watch"):
		request.Kind = Watch
	case r.Method == http.MethodGet:
		request.Kind = Read
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests = append(p.requests, request)
	return request
}

func (p *Proxy) answered(request *Request, status int) {
	if request == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	request.Status = status
}

// Reset forgets all requests.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests = nil
}

// Requests returns the requests in their order.
func (p *Proxy) Requests() []Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]Request, len(p.requests))
	for i, r := range p.requests {
		all[i] = *r
	}
	return all
}

// Count returns how many requests fulfil the condition.
func (p *Proxy) Count(condition func(Request) bool) int {
	n := 0
	for _, r := range p.Requests() {
		if condition(r) {
			n++
		}
	}
	return n
}
