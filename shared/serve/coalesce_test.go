package serve

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"drydock.dev/shared/events"
)

func TestOneEventIsHandledAndOneWaitsPerObject(t *testing.T) {
	running, most, calls := atomic.Int32{}, atomic.Int32{}, atomic.Int32{}
	started, proceed := make(chan struct{}, 100), make(chan struct{})
	handler := Coalesce(handlerFunc(func(context.Context, event.Event) (*event.Event, error) {
		most.Store(max(most.Load(), running.Add(1)))
		calls.Add(1)
		started <- struct{}{}
		<-proceed
		running.Add(-1)
		return nil, nil
	}))
	var all sync.WaitGroup
	answered := atomic.Int32{}
	send := func() {
		all.Go(func() {
			_, _ = handler.Handle(context.Background(), about("a"))
			answered.Add(1)
		})
	}
	send()
	<-started
	for range 50 {
		send()
	}
	other := make(chan struct{})
	go func() { // an event of another object does not wait
		_, _ = handler.Handle(context.Background(), about("b"))
		close(other)
	}()
	<-started
	eventually(t, "all but the running and the waiting event are answered", func() bool { return answered.Load() == 49 })
	close(proceed)
	all.Wait()
	<-other
	if calls.Load() != 3 || most.Load() != 2 {
		t.Errorf("%d calls for 51 events of a and 1 of b, up to %d at once", calls.Load(), most.Load())
	}
}

// TestWaitingEventStandsForOtherTypes: the waiting event is handled after all of the others were sent.
func TestWaitingEventStandsForOtherTypes(t *testing.T) {
	for name, row := range map[string]struct {
		coalesce func(Handler) Handler
		calls    int32
	}{"by type": {Coalesce, 3}, "any type": {CoalesceAny, 2}} {
		t.Run(name, func(t *testing.T) {
			calls := atomic.Int32{}
			started, proceed := make(chan struct{}, 10), make(chan struct{})
			handler := row.coalesce(handlerFunc(func(context.Context, event.Event) (*event.Event, error) {
				calls.Add(1)
				started <- struct{}{}
				<-proceed
				return nil, nil
			}))
			var all sync.WaitGroup
			answered := atomic.Int32{}
			send := func(eventType string) {
				e := about("a")
				e.SetType(eventType)
				all.Go(func() {
					_, _ = handler.Handle(context.Background(), e)
					answered.Add(1)
				})
			}
			send("changed")
			<-started
			for _, eventType := range []string{"changed", "completed", "changed"} {
				send(eventType)
			}
			eventually(t, "all others wait, or are answered", func() bool {
				return waiting(handler.(*coalescer), "a")+int(answered.Load()) == 3
			})
			close(proceed)
			all.Wait()
			if calls.Load() != row.calls {
				t.Errorf("%d calls, want %d", calls.Load(), row.calls)
			}
		})
	}
}

// TestRefusedEventStandsForNoOther: otherwise the function would never handle the event that was answered because the
// refused one waited.
func TestRefusedEventStandsForNoOther(t *testing.T) {
	calls, started, proceed := atomic.Int32{}, make(chan struct{}, 3), make(chan struct{})
	handler := CoalesceAny(handlerFunc(func(_ context.Context, e event.Event) (*event.Event, error) {
		started <- struct{}{}
		<-proceed
		if _, err := events.SetOf(e); err != nil {
			return nil, err
		}
		calls.Add(1)
		return nil, nil
	}))
	var all sync.WaitGroup
	answered := atomic.Int32{}
	of := func(kind string) event.Event {
		e := about("shop/web")
		e.SetExtension("kind", kind)
		e.SetExtension("namespace", "shop")
		e.SetExtension("name", "web")
		return e
	}
	send := func(kind string) {
		all.Go(func() {
			_, _ = handler.Handle(context.Background(), of(kind))
			answered.Add(1)
		})
	}
	wait := func() int { return waitingWith(handler.(*coalescer), of("StatefulSet")) }
	send("StatefulSet")
	<-started
	send("Deployment")
	eventually(t, "the event waits", func() bool { return wait() == 1 })
	send("StatefulSet")
	eventually(t, "the last one waits, or is answered", func() bool { return wait()+int(answered.Load()) == 2 })
	close(proceed)
	all.Wait()
	if calls.Load() != 2 {
		t.Errorf("%d calls: the last event was answered, but not handled", calls.Load())
	}
}

// TestAnswerStandsForNoOther: every client of the Broker can send answers, so a forged one can wait.
func TestAnswerStandsForNoOther(t *testing.T) {
	var mu sync.Mutex
	var keys []string
	started, proceed := make(chan struct{}, 3), make(chan struct{})
	handler := Coalesce(handlerFunc(func(_ context.Context, e event.Event) (*event.Event, error) {
		started <- struct{}{}
		<-proceed
		answer, err := events.HookAnswerOf(e)
		if answer != nil {
			mu.Lock()
			defer mu.Unlock()
			keys = append(keys, answer.Key)
		}
		return nil, err
	}))
	var all sync.WaitGroup
	send := func(key string) {
		e := about("a")
		e.SetType(events.ScaleHookCompleted)
		if err := e.SetData(event.ApplicationJSON, events.HookRequest{Key: key}); err != nil {
			t.Fatal(err)
		}
		all.Go(func() { _, _ = handler.Handle(context.Background(), e) })
	}
	all.Go(func() { _, _ = handler.Handle(context.Background(), about("a")) })
	<-started
	for i, key := range []string{"forged", "true"} {
		send(key)
		eventually(t, "the answer waits", func() bool { return waiting(handler.(*coalescer), "a") == i+1 })
	}
	close(proceed)
	all.Wait()
	slices.Sort(keys)
	if !slices.Equal(keys, []string{"forged", "true"}) {
		t.Errorf("the function has seen the answers %q", keys)
	}
}

func TestCancelledEventMakesRoomForNext(t *testing.T) {
	started, proceed := make(chan struct{}, 2), make(chan struct{})
	handler := Coalesce(handlerFunc(func(context.Context, event.Event) (*event.Event, error) {
		started <- struct{}{}
		<-proceed
		return nil, nil
	}))
	go func() { _, _ = handler.Handle(context.Background(), about("a")) }()
	<-started
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := handler.Handle(ctx, about("a")); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v: an event that was not handled must be sent again", err)
	}
	next := make(chan struct{})
	go func() {
		_, _ = handler.Handle(context.Background(), about("a"))
		close(next)
	}()
	eventually(t, "the event waits", queued(handler.(*coalescer), "a"))
	close(proceed)
	<-next
	if len(started) != 1 {
		t.Error("the next event was not handled")
	}
}

// TestOneEventOfEachKindWaits: an event is not coalesced with a waiting event of another kind.
func TestOneEventOfEachKindWaits(t *testing.T) {
	running, most := atomic.Int32{}, atomic.Int32{}
	var mu sync.Mutex
	calls := map[eventKind]int{}
	started, proceed := make(chan struct{}, 100), make(chan struct{})
	handler := Coalesce(handlerFunc(func(_ context.Context, e event.Event) (*event.Event, error) {
		most.Store(max(most.Load(), running.Add(1)))
		mu.Lock()
		calls[kindOf(e)]++
		mu.Unlock()
		started <- struct{}{}
		<-proceed
		running.Add(-1)
		return nil, nil
	}))
	var all sync.WaitGroup
	answered := atomic.Int32{}
	send := func(eventType, operation string) {
		e := about("a")
		e.SetType(eventType)
		e.SetExtension("operation", operation)
		all.Go(func() {
			_, _ = handler.Handle(context.Background(), e)
			answered.Add(1)
		})
	}
	send("changed", "x")
	<-started
	for range 10 {
		send("changed", "x")
		send("retry", "x")
		send("retry", "y")
	}
	eventually(t, "one of each kind waits", func() bool { return answered.Load() == 27 })
	close(proceed)
	all.Wait()
	want := map[eventKind]int{
		{eventType: "changed", operation: "x", isValid: true}: 2, {eventType: "retry", operation: "x", isValid: true}: 1,
		{eventType: "retry", operation: "y", isValid: true}: 1,
	}
	if !maps.Equal(calls, want) || most.Load() != 1 {
		t.Errorf("calls %v, want %v; up to %d at once", calls, want, most.Load())
	}
}

// TestObjectOfEvent: people who write events by hand forget the subject, and events of a group have none.
func TestObjectOfEvent(t *testing.T) {
	of := func(extensions ...string) event.Event {
		e := event.New()
		for i := 0; i < len(extensions); i += 2 {
			e.SetExtension(extensions[i], extensions[i+1])
		}
		return e
	}
	seen := map[string]int{}
	for i, e := range []event.Event{about("a"), about("b"), of(), of("namespace", "shop", "name", "web"),
		of("namespace", "shop", "name", "db"), of("namespace", "payroll", "name", "web"),
		of("namespace", "shop", "group", "web"), of("namespace", "shop", "group", "front"), of("namespace", "payroll", "group", "front")} {
		if before, twice := seen[objectOf(e)]; twice {
			t.Errorf("events %d and %d count as events of one object: %q", before, i, objectOf(e))
		}
		seen[objectOf(e)] = i
	}
	first, second := of("namespace", "shop", "group", "x", "id2", "1"), of("namespace", "shop", "group", "x", "id2", "2")
	if objectOf(first) != objectOf(second) {
		t.Error("two events of one group count as events of two groups")
	}
}

// TestEventsOfTwoGroupsAreHandledAtOnce: they do not wait for each other, though neither has a subject.
func TestEventsOfTwoGroupsAreHandledAtOnce(t *testing.T) {
	started, proceed := make(chan struct{}, 2), make(chan struct{})
	handler := Coalesce(handlerFunc(func(context.Context, event.Event) (*event.Event, error) {
		started <- struct{}{}
		<-proceed
		return nil, nil
	}))
	var all sync.WaitGroup
	for _, group := range []string{"front", "back"} {
		e := event.New()
		e.SetExtension("namespace", "shop")
		e.SetExtension("group", group)
		all.Go(func() { _, _ = handler.Handle(context.Background(), e) })
	}
	eventually(t, "both are handled", func() bool { return len(started) == 2 })
	close(proceed)
	all.Wait()
}

// TestOldEventStandsForNoRecentOne: for idle-timeout an event older than a minute has its own time, not the current
// time. After an outage of a Broker such an event may be waiting. A recent activity of the set would be lost if it were
// coalesced with that event.
func TestOldEventStandsForNoRecentOne(t *testing.T) {
	started, proceed := make(chan time.Time, 10), make(chan struct{})
	handler := Coalesce(handlerFunc(func(_ context.Context, e event.Event) (*event.Event, error) {
		started <- e.Time()
		<-proceed
		return nil, nil
	}))
	now := time.Now()
	var all sync.WaitGroup
	send := func(sent time.Time) {
		e := about("a")
		e.SetType("dev.drydock.activity")
		e.SetTime(sent)
		all.Go(func() { _, _ = handler.Handle(context.Background(), e) })
	}
	send(now)
	<-started
	send(now.Add(-24 * time.Hour))
	eventually(t, "the old event waits", queued(handler.(*coalescer), "a"))
	answered := make(chan struct{})
	go func() {
		recent := about("a")
		recent.SetType("dev.drydock.activity")
		recent.SetTime(now.Add(time.Second))
		_, _ = handler.Handle(context.Background(), recent)
		close(answered)
	}()
	select {
	case <-answered:
		t.Error("the recent event was answered, but not handled")
	case <-time.After(100 * time.Millisecond):
	}
	close(proceed)
	all.Wait()
	<-answered
}

func queued(c *coalescer, subject string) func() bool {
	return func() bool { return waiting(c, subject) > 0 }
}

// waiting returns how many kinds of events of the object wait.
func waiting(c *coalescer, subject string) int { return waitingWith(c, about(subject)) }

// waitingWith does the same for the object of an event.
func waitingWith(c *coalescer, e event.Event) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if object := c.objects[objectOf(e)]; object != nil {
		return len(object.waiting)
	}
	return 0
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); <-time.After(time.Millisecond) {
		if is() {
			return
		}
	}
	t.Fatal("never: " + what)
}

func about(subject string) event.Event {
	e := event.New()
	e.SetSubject(subject)
	return e
}
