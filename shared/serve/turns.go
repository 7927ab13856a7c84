package serve

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"drydock.dev/shared/events"
)

// Turns lets a function work on one object at a time. Its events are hints to look at an object: while one look at it is
// under way and an event waits, another one that asks for the same would see nothing more, so it is answered at once. The
// object is what the event's subject and extensions name; events ask for the same if they are of one type and about one
// operation. Not for a function that reads more of an event than that and its time.
func Turns(next Handler) Handler {
	return &turns{next: next, objects: map[string]*turn{}}
}

type turns struct {
	next    Handler
	mu      sync.Mutex
	objects map[string]*turn
}

// turn is the state of one object: a look is under way, and perhaps some wait for free to be closed, each for another
// wish.
type turn struct {
	waiting map[wish]bool
	free    chan struct{}
}

// wish is what an event asks for. One that was sent long ago, and comes only now, does not speak for one that was sent now.
type wish struct {
	eventType, operation string
	old                  bool
}

func wishOf(e event.Event) wish {
	operation, _ := e.Extensions()["operation"].(string)
	return wish{e.Type(), operation, events.Old(e, time.Now())}
}

// aboutOf names the object: people who write events by hand may forget the subject.
func aboutOf(e event.Event) string {
	x := e.Extensions()
	return fmt.Sprint(e.Subject(), " ", x["namespace"], " ", x["name"], " ", x["group"])
}

// Handle waits for its turn, or does nothing if somebody with the same wish waits already.
func (t *turns) Handle(ctx context.Context, e event.Event) (*event.Event, error) {
	subject, want := aboutOf(e), wishOf(e)
	for first := true; ; first = false {
		taken, wait := t.take(subject, want, first)
		if taken {
			defer t.release(subject)
			return t.next.Handle(ctx, e)
		}
		if wait == nil {
			return nil, nil
		}
		select {
		case <-wait:
		case <-ctx.Done():
			t.stopWaiting(subject, want)
			return nil, context.Cause(ctx)
		}
	}
}

// take reports whether the object is free. If not, it returns what to wait for, or nil if a first comer finds that
// another one with its wish waits.
func (t *turns) take(subject string, want wish, first bool) (bool, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	object := t.objects[subject]
	switch {
	case object == nil:
		t.objects[subject] = &turn{waiting: map[wish]bool{}, free: make(chan struct{})}
		return true, nil
	case object.waiting[want] && first:
		return false, nil
	}
	object.waiting[want] = true
	return false, object.free
}

func (t *turns) release(subject string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.objects[subject].free)
	delete(t.objects, subject)
}

func (t *turns) stopWaiting(subject string, want wish) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if object := t.objects[subject]; object != nil {
		delete(object.waiting, want)
	}
}
