package apiserver

import (
	"io"
	"maps"
	"net/http"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// Front takes the requests of clients to a server, one at a time.
type Front struct {
	// Before is asked about each request that is about to be answered. Its error is the answer. It may use the server.
	Before func(s *Server, r *Request) error
	mu     sync.Mutex
	server *Server
}

// NewFront returns the front of a new server with objects of known kinds.
func NewFront(objects ...metav1.Object) *Front {
	f := &Front{server: New(nil)}
	f.server.Add(objects...)
	return f
}

// Config connects clients without a network.
func (f *Front) Config() *rest.Config {
	return &rest.Config{Host: "http://api.example.com", Transport: f}
}

// Use uses the server while it answers no request.
func (f *Front) Use(use func(s *Server)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	use(f.server)
}

// RoundTrip answers the request of a client in this process.
func (f *Front) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	request, err := Parse(r)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Before != nil {
		if err := f.Before(f.server, request); err != nil {
			return Refuse(request, err), nil
		}
	}
	return f.server.Serve(request), nil
}

// ServeHTTP answers the request of another process.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, err := f.RoundTrip(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	defer answer.Body.Close() // it is in memory
	maps.Copy(w.Header(), answer.Header)
	w.WriteHeader(answer.StatusCode)
	_, _ = io.Copy(w, answer.Body)
}
