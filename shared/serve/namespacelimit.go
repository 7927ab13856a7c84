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

	// longestWait is how long an event waits for its namespace. A function has DefaultDeadline for both.
	longestWait = 10 * time.Second
)

// LimitNamespaces prevents one namespace from using all of a function. The work on one event may last until the deadline, and
// tenants decide how many of their sets need work.
//
// Above the limit of its namespace, an event waits for the events before it. At most `waiting` events of a namespace wait, each for at
// most ten seconds. The others get an error that the Broker retries. On Knative no event waits, because it would take room in the pod from
// other namespaces.
func LimitNamespaces(next Handler, waiting int) Handler {
	return &namespaceLimiter{next: next, most: perNamespace + waiting, namespaces: map[string]*namespaceQueue{}}
}

type namespaceLimiter struct {
	next       Handler
	most       int // events of a namespace that are in progress or wait
	mu         sync.Mutex
	namespaces map[string]*namespaceQueue
}

// namespaceQueue is the queue of one namespace. It exists while it has events.
type namespaceQueue struct {
	events     int           // in progress or waiting
	inProgress chan struct{} // has an element for each event in progress; senders wait in their order
}

func (s *namespaceLimiter) Handle(ctx context.Context, e event.Event) (*event.Event, error) {
	namespace, _ := e.Extensions()["namespace"].(string)
	queue := s.enter(namespace)
	if queue == nil {
		return nil, tooMany(namespace)
	}
	defer s.leave(namespace)
	wait, cancel := context.WithTimeout(ctx, longestWait)
	defer cancel()
	select {
	case queue.inProgress <- struct{}{}:
	case <-wait.Done():
		return nil, tooMany(namespace)
	}
	defer func() { <-queue.inProgress }()
	return s.next.Handle(ctx, e)
}

func tooMany(namespace string) error {
	return fmt.Errorf("%d events of namespace %q are in progress. Retry later", perNamespace, namespace)
}

// enter counts an event of the namespace. It returns nil if there is no room.
func (s *namespaceLimiter) enter(namespace string) *namespaceQueue {
	s.mu.Lock()
	defer s.mu.Unlock()
	queue := s.namespaces[namespace]
	if queue == nil {
		queue = &namespaceQueue{inProgress: make(chan struct{}, perNamespace)}
		s.namespaces[namespace] = queue
	}
	if queue.events == s.most {
		return nil
	}
	queue.events++
	return queue
}

func (s *namespaceLimiter) leave(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.namespaces[namespace].events--; s.namespaces[namespace].events == 0 {
		delete(s.namespaces, namespace)
	}
}
