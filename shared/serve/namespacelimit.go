package serve

import (
	"context"
	"fmt"
	"sync"

	"github.com/cloudevents/sdk-go/v2/event"
)

// perNamespace is the maximum number of events of one namespace that a process handles at once. Knative gives a pod
// twenty events (containerConcurrency in deploy/), so at least three namespaces are needed to fill a pod.
const perNamespace = 8

// LimitNamespaces prevents one namespace from using all of a function. An event above the limit of its namespace gets an error
// that the Broker retries. The work on one event may last until the deadline, and tenants decide how many of their sets
// need work.
func LimitNamespaces(next Handler) Handler {
	return &namespaceLimiter{next: next, inProgress: map[string]int{}}
}

type namespaceLimiter struct {
	next       Handler
	mu         sync.Mutex
	inProgress map[string]int // by namespace
}

func (s *namespaceLimiter) Handle(ctx context.Context, e event.Event) (*event.Event, error) {
	namespace, _ := e.Extensions()["namespace"].(string)
	if !s.acquire(namespace) {
		return nil, fmt.Errorf("%d events of namespace %q are in progress. Retry later", perNamespace, namespace)
	}
	defer s.release(namespace)
	return s.next.Handle(ctx, e)
}

func (s *namespaceLimiter) acquire(namespace string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inProgress[namespace] == perNamespace {
		return false
	}
	s.inProgress[namespace]++
	return true
}

func (s *namespaceLimiter) release(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inProgress[namespace]--; s.inProgress[namespace] == 0 {
		delete(s.inProgress, namespace)
	}
}
