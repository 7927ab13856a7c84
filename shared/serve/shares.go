package serve

import (
	"context"
	"fmt"
	"sync"

	"github.com/cloudevents/sdk-go/v2/event"
)

// perNamespace is how many events about one namespace a process works on at once. Knative gives a pod twenty (containerConcurrency in
// deploy/), so it takes three namespaces to fill one.
const perNamespace = 8

// Shares keeps one namespace from taking all of a function: an event about a namespace that has its share is answered with an error
// that the Broker retries. Work on one event may last for its whole deadline, and tenants decide how many of their sets need work.
func Shares(next Handler) Handler {
	return &shares{next: next, taken: map[string]int{}}
}

type shares struct {
	next  Handler
	mu    sync.Mutex
	taken map[string]int // by namespace
}

func (s *shares) Handle(ctx context.Context, e event.Event) (*event.Event, error) {
	namespace, _ := e.Extensions()["namespace"].(string)
	if !s.take(namespace) {
		return nil, fmt.Errorf("%d events about namespace %q are being worked on; come again", perNamespace, namespace)
	}
	defer s.give(namespace)
	return s.next.Handle(ctx, e)
}

func (s *shares) take(namespace string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken[namespace] == perNamespace {
		return false
	}
	s.taken[namespace]++
	return true
}

func (s *shares) give(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken[namespace]--; s.taken[namespace] == 0 {
		delete(s.taken, namespace)
	}
}
