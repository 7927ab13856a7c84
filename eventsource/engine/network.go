package engine

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"knative.dev/eventing/pkg/kncloudevents"
)

// idleConnectionsPerHost is the number of idle connections that the network inside the process keeps to each address.
const idleConnectionsPerHost = 8

// network connects the engine's clients to its server inside the process. All host names that the engine serves lead to one listener, and
// the server distinguishes them by the Host header.
type network struct {
	listener  *pipeListener
	hosts     map[string]bool
	transport *http.Transport // reaches only the engine's hosts
}

func newNetwork() *network {
	n := &network{listener: &pipeListener{connections: make(chan net.Conn), closed: make(chan struct{})}, hosts: map[string]bool{}}
	n.transport = &http.Transport{
		DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return n.dial(ctx) },
		MaxIdleConnsPerHost: idleConnectionsPerHost,
		IdleConnTimeout:     time.Minute,
	}
	return n
}

// add makes the host reachable.
func (n *network) add(host string) { n.hosts[host] = true }

// dial connects to a host of the engine.
func (n *network) dial(ctx context.Context) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case n.listener.connections <- server:
		return client, nil
	case <-n.listener.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// currentNetwork is the network of the running engine. Knative's clients live as long as the process, so their dialer reads it for each
// connection.
var currentNetwork struct {
	sync.RWMutex
	network *network
}

// patchTransport makes http.DefaultTransport reach the engine's hosts. Knative's clients clone it, and offer no other way to set a
// transport (knative.dev/eventing pkg/kncloudevents/http_client.go, pkg/adapter/v2/cloudevents.go).
var patchTransport = sync.OnceFunc(func() {
	patched := http.DefaultTransport.(*http.Transport).Clone()
	dial, proxy := patched.DialContext, patched.Proxy
	patched.DialContext = func(ctx context.Context, kind, address string) (net.Conn, error) {
		if n := networkOf(address); n != nil {
			return n.dial(ctx)
		}
		return dial(ctx, kind, address)
	}
	patched.Proxy = func(r *http.Request) (*url.URL, error) {
		if networkOf(r.URL.Host) != nil {
			return nil, nil
		}
		return proxy(r)
	}
	http.DefaultTransport = patched
})

// networkOf returns the network with the host of the address, or nil for a host outside the engine.
func networkOf(address string) *network {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	currentNetwork.RLock()
	defer currentNetwork.RUnlock()
	if currentNetwork.network != nil && currentNetwork.network.hosts[host] {
		return currentNetwork.network
	}
	return nil
}

// makeCurrent makes the network the current one of the process. The returned function removes it.
func (n *network) makeCurrent() (restore func()) {
	set := func(to *network) {
		currentNetwork.Lock()
		defer currentNetwork.Unlock()
		currentNetwork.network = to
	}
	set(n)
	return func() { set(nil) }
}

// pipeListener is a listener whose connections are the server ends of pipes.
type pipeListener struct {
	connections chan net.Conn
	closed      chan struct{}
	once        sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.connections:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return pipeAddress{} }

type pipeAddress struct{}

func (pipeAddress) Network() string { return "pipe" }
func (pipeAddress) String() string  { return "the network inside the process" }

// closingBodies returns a CheckRetry that also makes the body of the response close itself at its end. CheckRetry is the only hook of
// Knative's dispatcher that gets each response. The dispatcher reads the body of a response that is an event, but does not close it
// (executeRequest in pkg/kncloudevents/event_dispatcher.go). net/http keeps a goroutine for the request until the body is closed, or else
// until the timeout of the Trigger.
func closingBodies(check kncloudevents.CheckRetry) kncloudevents.CheckRetry {
	return func(ctx context.Context, response *http.Response, err error) (bool, error) {
		if response != nil {
			response.Body = closingBody{response.Body}
		}
		return check(ctx, response, err)
	}
}

// closingBody closes itself when a read fails or reaches the end.
type closingBody struct{ io.ReadCloser }

func (b closingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		_ = b.Close() // the error of the read, if any, says more
	}
	return n, err
}
