package serve

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"drydock.dev/shared/events"
)

// Turns lets a function handle one event of each object at a time. An event is a hint to look at the object that its subject and
// extensions name. If an event waits for the present look to end, a second event with the same type and operation is answered at
// once: the look of the first would see everything that the second asks for. Use it for functions that read only the object, type,
// operation and time of an event.
func Turns(next Handler) Handler {
	return &turns{next: next, wishOf: wishOf, objects: map[string]*turn{}}
}

// TurnsOfAny is Turns for a function that reads only the object of an event. All events of an object are then equal.
func TurnsOfAny(next Handler) Handler {
	return &turns{next: next, wishOf: anyWish, objects: map[string]*turn{}}
}

type turns struct {
	next    Handler
	wishOf  func(event.Event) wish
	mu      sync.Mutex
	objects map[string]*turn
}

// turn is the state of an object with a look under way. At most one event for each wish waits until free is closed.
type turn struct {
	waiting map[wish]bool
	free    chan struct{}
}

// wish identifies events that one look can answer. An event that arrives late cannot stand for a recent event.
type wish struct {
	eventType, operation string
	old, names           bool
}

func wishOf(e event.Event) wish {
	operation, _ := e.Extensions()["operation"].(string)
	return wish{eventType: e.Type(), operation: operation, old: events.Old(e, time.Now())}
}

// anyWish separates events that name no StatefulSet: they are refused without a look, so they cannot stand for other events.
func anyWish(e event.Event) wish {
	_, err := events.SetOf(e)
	return wish{old: events.Old(e, time.Now()), names: err == nil}
}

// aboutOf names the object: people who write events by hand may forget the subject.
func aboutOf(e event.Event) string {
	x := e.Extensions()
	return fmt.Sprint(e.Subject(), " ", x["namespace"], " ", x["name"], " ", x["group"])
}

// Handle waits for its turn, or returns at once if another event with the same wish already waits.
func (t *turns) Handle(ctx context.Context, e event.Event) (*event.Event, error) {
	subject, want := aboutOf(e), t.wishOf(e)
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
