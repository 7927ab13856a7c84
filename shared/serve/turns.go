package serve

import (
	"context"
	"sync"

	"github.com/cloudevents/sdk-go/v2/event"
)

// Turns lets a function work on one object at a time. Its events are hints to look at an object: while one look at it is
// under way and another one waits, a third would see nothing more than the second, so it is answered at once. The key is
// the event's subject. Not for a function that reads more of an event than which object it is about.
func Turns(next Handler) Handler {
	return &turns{next: next, objects: map[string]*turn{}}
}

type turns struct {
	next    Handler
	mu      sync.Mutex
	objects map[string]*turn
}

// turn is the state of one object: a look is under way, and perhaps one waits for free to be closed.
type turn struct {
	waiting bool
	free    chan struct{}
}

// Handle waits for its turn, or does nothing if somebody waits already.
func (t *turns) Handle(ctx context.Context, e event.Event) (*event.Event, error) {
	for first := true; ; first = false {
		taken, wait := t.take(e.Subject(), first)
		if taken {
			defer t.release(e.Subject())
			return t.next.Handle(ctx, e)
		}
		if wait == nil {
			return nil, nil
		}
		select {
		case <-wait:
		case <-ctx.Done():
			t.stopWaiting(e.Subject())
			return nil, context.Cause(ctx)
		}
	}
}

// take reports whether the object is free. If not, it returns what to wait for, or nil if a first comer finds that
// another one waits.
func (t *turns) take(subject string, first bool) (bool, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	object := t.objects[subject]
	switch {
	case object == nil:
		t.objects[subject] = &turn{free: make(chan struct{})}
		return true, nil
	case object.waiting && first:
		return false, nil
	}
	object.waiting = true
	return false, object.free
}

func (t *turns) release(subject string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.objects[subject].free)
	delete(t.objects, subject)
}

func (t *turns) stopWaiting(subject string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if object := t.objects[subject]; object != nil {
		object.waiting = false
	}
}
