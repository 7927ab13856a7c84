package kube

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// slowServer is a transport whose answers take a second. It counts the requests at once.
type slowServer struct{ now, most atomic.Int32 }

func (s *slowServer) RoundTrip(*http.Request) (*http.Response, error) {
	if n := s.now.Add(1); n > s.most.Load() {
		s.most.Store(n)
	}
	defer s.now.Add(-1)
	time.Sleep(time.Second)
	return &http.Response{}, nil
}

// TestWritesOfTurnsAreSentOneAfterTheOther: the API server fails most of many patches of one object at once. Other requests do not wait.
func TestWritesOfTurnsAreSentOneAfterTheOther(t *testing.T) {
	for _, row := range []struct {
		method, path string
		most         int32
	}{
		{http.MethodPatch, "/api/v1/namespaces/drydock/configmaps/drydock-turns", 1},
		{http.MethodGet, "/api/v1/namespaces/drydock/configmaps/drydock-turns", 5},
		{http.MethodPatch, "/api/v1/namespaces/shop/configmaps/drydock-turns", 5},
		{http.MethodPatch, "/apis/apps/v1/namespaces/shop/statefulsets/web", 5},
	} {
		synctest.Test(t, func(t *testing.T) {
			server := &slowServer{}
			transport := newSerialTurns(server)
			send := func(ctx context.Context) error {
				r, err := http.NewRequestWithContext(ctx, row.method, "https://api.example.com"+row.path, nil)
				if err != nil {
					t.Error(err)
				}
				_, err = transport.RoundTrip(r)
				return err
			}
			var all sync.WaitGroup
			for range 5 {
				all.Go(func() {
					if err := send(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			synctest.Wait()
			if row.most == 1 {
				short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				defer cancel()
				if err := send(short); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("an event whose time is over waits: %v", err)
				}
			}
			all.Wait()
			if most := server.most.Load(); most != row.most {
				t.Errorf("%s %s: %d at once", row.method, row.path, most)
			}
		})
	}
}
