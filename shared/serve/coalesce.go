package serve

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"drydock.dev/shared/events"
)

// Coalesce lets a function handle one event per object at a time, and coalesces waiting events. An event is a hint to read
// the object that its subject and extensions name. While an event waits, a second event of the same type and operation
// is answered immediately: the first one will see everything that the second one would see. Use it for functions that
// read only the object, type, operation and time of an event, and the answer to a hook.
func Coalesce(next Handler) Handler {
	return &coalescer{next: next, kindOf: kindOf, objects: map[string]*inProgress{}}
}

// CoalesceAny is Coalesce for a function that reads only the object of an event. It coalesces all events of an object.
func CoalesceAny(next Handler) Handler {
	return &coalescer{next: next, kindOf: kindOfAny, objects: map[string]*inProgress{}}
}

type coalescer struct {
	next    Handler
	kindOf  func(event.Event) eventKind
	mu      sync.Mutex
	objects map[string]*inProgress
}

// inProgress is the state of an object whose event is being handled. At most one event of each kind waits until done is
// closed.
type inProgress struct {
	waiting map[eventKind]bool
	done    chan struct{}
}

// eventKind identifies events that can be coalesced. An event that arrives late cannot stand for a recent event.
type eventKind struct {
	eventType, operation string
	answer               events.HookAnswer // to a hook: the function compares its key, so no other answer stands for it
	isOld, isValid       bool
}

func kindOf(e event.Event) eventKind {
	operation, _ := e.Extensions()["operation"].(string)
	kind := eventKind{eventType: e.Type(), operation: operation, isOld: events.IsOld(e, time.Now())}
	answer, err := events.HookAnswerOf(e)
	if kind.isValid = err == nil; answer != nil {
		kind.answer = *answer
	}
	return kind
}

// kindOfAny separates events that name no StatefulSet. They are refused before any object is read, so they cannot stand
// for other events.
func kindOfAny(e event.Event) eventKind {
	_, err := events.SetOf(e)
	return eventKind{isOld: events.IsOld(e, time.Now()), isValid: err == nil}
}

// objectOf identifies the object of an event. It uses the extensions, too, because people who write events by hand may
// forget the subject.
func objectOf(e event.Event) string {
	x := e.Extensions()
	return fmt.Sprint(e.Subject(), " ", x["namespace"], " ", x["name"], " ", x["group"])
}

// Handle waits until the object is free. It returns at once if another event of the same kind already waits.
func (c *coalescer) Handle(ctx context.Context, e event.Event) (*event.Event, error) {
	object, kind := objectOf(e), c.kindOf(e)
	for first := true; ; first = false {
		taken, wait := c.acquire(object, kind, first)
		if taken {
			defer c.release(object)
			return c.next.Handle(ctx, e)
		}
		if wait == nil {
			return nil, nil
		}
		select {
		case <-wait:
		case <-ctx.Done():
			c.stopWaiting(object, kind)
			return nil, context.Cause(ctx)
		}
	}
}

// acquire reports whether the object is free. If not, it returns the channel to wait for, or nil if another event of the
// same kind waits. Only the first call for an event can return nil.
func (c *coalescer) acquire(object string, kind eventKind, first bool) (bool, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	state := c.objects[object]
	switch {
	case state == nil:
		c.objects[object] = &inProgress{waiting: map[eventKind]bool{}, done: make(chan struct{})}
		return true, nil
	case state.waiting[kind] && first:
		return false, nil
	}
	state.waiting[kind] = true
	return false, state.done
}

func (c *coalescer) release(object string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.objects[object].done)
	delete(c.objects, object)
}

func (c *coalescer) stopWaiting(object string, kind eventKind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if state := c.objects[object]; state != nil {
		delete(state.waiting, kind)
	}
}
