package serve

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
)

const (
	// perNamespace is the maximum number of events of one namespace that a process handles at once. Knative gives a pod
	// twenty events (containerConcurrency in deploy/), so at least three namespaces are needed to fill a pod.
	perNamespace = 8

	// MaxWait is how long an event waits for its namespace. It is a part of the time limit of the event, so a process whose events wait
	// needs a time limit that is longer by it.
	MaxWait = 10 * time.Second
)

// LimitNamespaces prevents one namespace from using all of a function. The work on one event may last until the deadline, and
// tenants decide how many of their sets need work.
//
// Above the limit, up to maxWaiting events of the namespace wait in their order, each for at most MaxWait. All others get an error that the
// Broker retries. On Knative no event waits, because it would take room in the pod from other namespaces.
func LimitNamespaces(next Handler, maxWaiting int) Handler {
	return &namespaceLimiter{next: next, maxEvents: perNamespace + maxWaiting, namespaces: map[string]*namespaceQueue{}}
}

type namespaceLimiter struct {
	next       Handler
	maxEvents  int // of a namespace, in progress or waiting
	mu         sync.Mutex
	namespaces map[string]*namespaceQueue
}

// namespaceQueue is the queue of one namespace. It exists while it has events.
type namespaceQueue struct {
	events int           // in progress or waiting
	slots  chan struct{} // has an element for each event in progress; senders wait in their order
}

func (s *namespaceLimiter) Handle(ctx context.Context, e event.Event) (*event.Event, error) {
	namespace, _ := e.Extensions()["namespace"].(string)
	queue := s.admit(namespace)
	if queue == nil {
		return nil, tooMany(namespace)
	}
	defer s.release(namespace)
	wait, cancel := context.WithTimeout(ctx, MaxWait)
	defer cancel()
	select {
	case queue.slots <- struct{}{}:
	case <-wait.Done():
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, tooMany(namespace)
	}
	defer func() { <-queue.slots }()
	return s.next.Handle(ctx, e)
}

func tooMany(namespace string) error {
	return fmt.Errorf("too many events of namespace %q: %d are in progress. Retry later", namespace, perNamespace)
}

// admit counts an event of the namespace. It returns nil if there is no room.
func (s *namespaceLimiter) admit(namespace string) *namespaceQueue {
	s.mu.Lock()
	defer s.mu.Unlock()
	queue := s.namespaces[namespace]
	if queue == nil {
		queue = &namespaceQueue{slots: make(chan struct{}, perNamespace)}
		s.namespaces[namespace] = queue
	}
	if queue.events == s.maxEvents {
		return nil
	}
	queue.events++
	return queue
}

func (s *namespaceLimiter) release(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.namespaces[namespace].events--; s.namespaces[namespace].events == 0 {
		delete(s.namespaces, namespace)
	}
}
