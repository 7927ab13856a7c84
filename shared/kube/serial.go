package kube

import (
	"net/http"
	"strings"

	"drydock.dev/shared/api"
)

// turnsPath ends the URL of the list of turns.
const turnsPath = "/namespaces/" + api.HomeNamespace + "/configmaps/" + api.TurnsConfigMap

// serialTurns is a transport that sends the writes of the list of turns one after the other. The API server repeats a patch without a
// resourceVersion until it meets no other write (GuaranteedUpdate in kubernetes staging apiserver pkg/storage/etcd3). Of a hundred patches
// at once, most then fail after the time limit of a request. client-go's limit of requests applies before the transport, so no other
// request delays a write that has its place.
type serialTurns struct {
	next http.RoundTripper
	slot chan struct{} // has an element while a write is sent
}

func newSerialTurns(next http.RoundTripper) serialTurns {
	return serialTurns{next: next, slot: make(chan struct{}, 1)}
}

// RoundTrip sends the request. A write of the list waits for the write before it.
func (s serialTurns) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPatch || !strings.HasSuffix(r.URL.Path, turnsPath) {
		return s.next.RoundTrip(r)
	}
	select {
	case s.slot <- struct{}{}:
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	defer func() { <-s.slot }()
	return s.next.RoundTrip(r)
}
