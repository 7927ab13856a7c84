package engine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/uuid"
	sourcesv1 "knative.dev/eventing/pkg/apis/sources/v1"

	"drydock.dev/shared/serve"
)

func listenTCP(address string) (net.Listener, error) {
	return net.Listen("tcp", address) // the listener outlives any request
}

func (s *servers) start(server *http.Server, listener net.Listener) {
	s.servers = append(s.servers, server)
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.failed <- fmt.Errorf("serving on %s: %w", listener.Addr(), err)
		}
	}()
}

// stop shuts the servers down. It closes connections that are still open after the grace.
func (s *servers) stop(grace time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	for _, server := range s.servers {
		if server.Shutdown(ctx) != nil {
			_ = server.Close()
		}
	}
}

// limitBody bounds the size of events from outside, because Knative's ingress reads a body of any size into memory.
func limitBody(next http.Handler) http.Handler { return http.MaxBytesHandler(next, serve.MaxBytes) }

// newTick returns the event of a PingSource named "tick" (knative.dev/eventing pkg/adapter/mtping).
func newTick(namespace string) event.Event {
	e := event.New()
	e.SetType(sourcesv1.PingSourceEventType)
	e.SetSource(sourcesv1.PingSourceSource(namespace, "tick"))
	e.SetID(uuid.NewString())
	e.SetTime(time.Now())
	return e
}
