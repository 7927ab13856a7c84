package engine

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// network connects the engine's clients to its server inside the process. Every host name of the cluster's domain that
// the engine serves leads to the one listener; the server tells them apart by the Host header.
type network struct {
	listener  *pipeListener
	hosts     map[string]bool
	transport *http.Transport // reaches the engine's hosts and nothing else
}

func newNetwork() *network {
	n := &network{listener: &pipeListener{connections: make(chan net.Conn), closed: make(chan struct{})}, hosts: map[string]bool{}}
	n.transport = &http.Transport{
		DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return n.dial(ctx) },
		MaxIdleConnsPerHost: idleConnections,
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

// installed is the network of the running engine. Knative's clients live as long as the process, so their dialer looks
// it up anew.
var installed struct {
	sync.RWMutex
	network *network
}

// patchTransport lets http.DefaultTransport reach the engine's hosts. Knative's clients clone it, and offer no other
// way to choose a transport (knative.dev/eventing pkg/kncloudevents/http_client.go, pkg/adapter/v2/cloudevents.go).
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

// networkOf is the network that has the host of the address; nil for the world outside.
func networkOf(address string) *network {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	installed.RLock()
	defer installed.RUnlock()
	if installed.network != nil && installed.network.hosts[host] {
		return installed.network
	}
	return nil
}

// install makes the network the process's; the function returned takes it back.
func (n *network) install() (restore func()) {
	set := func(to *network) {
		installed.Lock()
		defer installed.Unlock()
		installed.network = to
	}
	set(n)
	return func() { set(nil) }
}

// pipeListener accepts the server ends of pipes.
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
func (pipeAddress) String() string  { return "the process's own network" }
