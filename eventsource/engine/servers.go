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
	return net.Listen("tcp", address) //nolint:noctx // the listener outlives any request
}

func (s *servers) start(server *http.Server, listener net.Listener) {
	s.all = append(s.all, server)
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.failed <- fmt.Errorf("serving on %s: %w", listener.Addr(), err)
		}
	}()
}

// stop closes the servers; what is not done within the grace is cut off.
func (s *servers) stop(grace time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	for _, server := range s.all {
		if server.Shutdown(ctx) != nil {
			_ = server.Close()
		}
	}
}

// limitBody bounds events from outside: Knative's ingress reads a body whole, whatever its size.
func limitBody(next http.Handler) http.Handler { return http.MaxBytesHandler(next, serve.MaxBytes) }

// newTick is the event of a PingSource named "tick" (knative.dev/eventing pkg/adapter/mtping).
func newTick(namespace string) event.Event {
	e := event.New()
	e.SetType(sourcesv1.PingSourceEventType)
	e.SetSource(sourcesv1.PingSourceSource(namespace, "tick"))
	e.SetID(uuid.NewString())
	e.SetTime(time.Now())
	return e
}
