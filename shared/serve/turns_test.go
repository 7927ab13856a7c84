package serve

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"drydock.dev/shared/events"
)

func TestTurnsOneLookAtATimeAndOneThatWaits(t *testing.T) {
	running, most, looks := atomic.Int32{}, atomic.Int32{}, atomic.Int32{}
	started, goOn := make(chan struct{}, 100), make(chan struct{})
	handler := Turns(handlerFunc(func(context.Context, event.Event) (*event.Event, error) {
		most.Store(max(most.Load(), running.Add(1)))
		looks.Add(1)
		started <- struct{}{}
		<-goOn
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
	go func() { // another object does not wait
		_, _ = handler.Handle(context.Background(), about("b"))
		close(other)
	}()
	<-started
	eventually(t, "all but the running and the waiting event are answered", func() bool { return answered.Load() == 49 })
	close(goOn)
	all.Wait()
	<-other
	if looks.Load() != 3 || most.Load() != 2 {
		t.Errorf("%d looks for 51 events on a and 1 on b, up to %d at once", looks.Load(), most.Load())
	}
}

// TestTurnsOfAnyOneLookForAllTypesOfEvents: what waits looks later than all of them were sent.
func TestTurnsOfAnyOneLookForAllTypesOfEvents(t *testing.T) {
	for name, row := range map[string]struct {
		turns func(Handler) Handler
		looks int32
	}{"by type": {Turns, 3}, "of any": {TurnsOfAny, 2}} {
		t.Run(name, func(t *testing.T) {
			looks := atomic.Int32{}
			started, goOn := make(chan struct{}, 10), make(chan struct{})
			handler := row.turns(handlerFunc(func(context.Context, event.Event) (*event.Event, error) {
				looks.Add(1)
				started <- struct{}{}
				<-goOn
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
			eventually(t, "all others wait, or are answered", func() bool { return waiting(handler.(*turns), "a")+int(answered.Load()) == 3 })
			close(goOn)
			all.Wait()
			if looks.Load() != row.looks {
				t.Errorf("%d looks, want %d", looks.Load(), row.looks)
			}
		})
	}
}

// TestTurnsOfAnyAnEventThatIsRefusedSpeaksForNoOther: nobody would look after the event that it has stood for.
func TestTurnsOfAnyAnEventThatIsRefusedSpeaksForNoOther(t *testing.T) {
	looks, started, goOn := atomic.Int32{}, make(chan struct{}, 3), make(chan struct{})
	handler := TurnsOfAny(handlerFunc(func(_ context.Context, e event.Event) (*event.Event, error) {
		started <- struct{}{}
		<-goOn
		if _, err := events.SetOf(e); err != nil {
			return nil, err
		}
		looks.Add(1)
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
	wait := func() int { return waitingWith(handler.(*turns), of("StatefulSet")) }
	send("StatefulSet")
	<-started
	send("Deployment")
	eventually(t, "it waits", func() bool { return wait() == 1 })
	send("StatefulSet")
	eventually(t, "the last one waits, or is answered", func() bool { return wait()+int(answered.Load()) == 2 })
	close(goOn)
	all.Wait()
	if looks.Load() != 2 {
		t.Errorf("%d looks: the last event was answered, and nobody has looked after it", looks.Load())
	}
}

func TestTurnsAWaiterThatGivesUpLeavesItsPlace(t *testing.T) {
	started, goOn := make(chan struct{}, 2), make(chan struct{})
	handler := Turns(handlerFunc(func(context.Context, event.Event) (*event.Event, error) {
		started <- struct{}{}
		<-goOn
		return nil, nil
	}))
	go func() { _, _ = handler.Handle(context.Background(), about("a")) }()
	<-started
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := handler.Handle(ctx, about("a")); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v: an event that was not looked at must be sent again", err)
	}
	next := make(chan struct{})
	go func() {
		_, _ = handler.Handle(context.Background(), about("a"))
		close(next)
	}()
	eventually(t, "it waits", queued(handler.(*turns), "a"))
	close(goOn)
	<-next
	if len(started) != 1 {
		t.Error("the next event was swallowed")
	}
}

// TestTurnsEachWishGetsItsTurn: an event that asks for something is not swallowed because one waits that asks to look.
func TestTurnsEachWishGetsItsTurn(t *testing.T) {
	running, most := atomic.Int32{}, atomic.Int32{}
	var mu sync.Mutex
	looks := map[wish]int{}
	started, goOn := make(chan struct{}, 100), make(chan struct{})
	handler := Turns(handlerFunc(func(_ context.Context, e event.Event) (*event.Event, error) {
		most.Store(max(most.Load(), running.Add(1)))
		mu.Lock()
		looks[wishOf(e)]++
		mu.Unlock()
		started <- struct{}{}
		<-goOn
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
	close(goOn)
	all.Wait()
	want := map[wish]int{{eventType: "changed", operation: "x"}: 2, {eventType: "retry", operation: "x"}: 1, {eventType: "retry", operation: "y"}: 1}
	if !maps.Equal(looks, want) || most.Load() != 1 {
		t.Errorf("looks %v, want %v; up to %d at once", looks, want, most.Load())
	}
}

// TestTurnsKnowWhomAnEventIsAbout: people who write events by hand forget the subject, and those about a group have none.
func TestTurnsKnowWhomAnEventIsAbout(t *testing.T) {
	of := func(extensions ...string) event.Event {
		e := event.New()
		for i := 0; i < len(extensions); i += 2 {
			e.SetExtension(extensions[i], extensions[i+1])
		}
		return e
	}
	seen := map[string]int{}
	for i, e := range []event.Event{about("a"), about("b"), of(), of("namespace", "shop", "name", "web"), of("namespace", "shop", "name", "db"), of("namespace", "payroll", "name", "web"),
		of("namespace", "shop", "group", "web"), of("namespace", "shop", "group", "front"), of("namespace", "payroll", "group", "front")} {
		if before, twice := seen[aboutOf(e)]; twice {
			t.Errorf("events %d and %d pass as about the same: %q", before, i, aboutOf(e))
		}
		seen[aboutOf(e)] = i
	}
	if first, second := of("namespace", "shop", "group", "x", "id2", "1"), of("namespace", "shop", "group", "x", "id2", "2"); aboutOf(first) != aboutOf(second) {
		t.Error("two events about one group pass as about two")
	}
}

// TestTurnsTwoGroupsDoNotWaitForEachOther, though neither event has a subject.
func TestTurnsTwoGroupsDoNotWaitForEachOther(t *testing.T) {
	started, goOn := make(chan struct{}, 2), make(chan struct{})
	handler := Turns(handlerFunc(func(context.Context, event.Event) (*event.Event, error) {
		started <- struct{}{}
		<-goOn
		return nil, nil
	}))
	var all sync.WaitGroup
	for _, group := range []string{"front", "back"} {
		e := event.New()
		e.SetExtension("namespace", "shop")
		e.SetExtension("group", group)
		all.Go(func() { _, _ = handler.Handle(context.Background(), e) })
	}
	eventually(t, "both are looked at", func() bool { return len(started) == 2 })
	close(goOn)
	all.Wait()
}

// TestTurnsAnOldEventDoesNotSpeakForAFreshOne: idle-timeout takes an event that is older than a minute for one of its own
// time. If such a one waits, as after a Broker was away, the use that somebody makes of a set just now would be lost.
func TestTurnsAnOldEventDoesNotSpeakForAFreshOne(t *testing.T) {
	started, goOn := make(chan time.Time, 10), make(chan struct{})
	handler := Turns(handlerFunc(func(_ context.Context, e event.Event) (*event.Event, error) {
		started <- e.Time()
		<-goOn
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
	eventually(t, "the old one waits", queued(handler.(*turns), "a"))
	answered := make(chan struct{})
	go func() {
		fresh := about("a")
		fresh.SetType("dev.drydock.activity")
		fresh.SetTime(now.Add(time.Second))
		_, _ = handler.Handle(context.Background(), fresh)
		close(answered)
	}()
	select {
	case <-answered:
		t.Error("the fresh one is answered, and nobody has looked at it")
	case <-time.After(100 * time.Millisecond):
	}
	close(goOn)
	all.Wait()
	<-answered
}

func queued(turns *turns, subject string) func() bool {
	return func() bool { return waiting(turns, subject) > 0 }
}

// waiting counts the wishes about an object for which an event waits.
func waiting(turns *turns, subject string) int { return waitingWith(turns, about(subject)) }

// waitingWith counts them about the object of the event.
func waitingWith(turns *turns, e event.Event) int {
	turns.mu.Lock()
	defer turns.mu.Unlock()
	if object := turns.objects[aboutOf(e)]; object != nil {
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
