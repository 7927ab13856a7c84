package serve

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"

	"drydock.dev/shared/fault"
)

func eventOf(namespace string) event.Event {
	e := event.New()
	e.SetExtension("namespace", namespace)
	return e
}

func TestBusyNamespaceDoesNotBlockOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limited := LimitNamespaces(handlerFunc(func(context.Context, event.Event) (*event.Event, error) {
			<-time.After(8 * time.Second)
			return nil, nil
		}), 0)
		failed := make(chan error, 100)
		for range cap(failed) {
			go func() {
				_, err := limited.Handle(t.Context(), eventOf("aaa"))
				failed <- err
			}()
		}
		synctest.Wait()
		refused := 0
		for len(failed) > 0 {
			if err := <-failed; fault.Status(err) != 503 {
				t.Errorf("status %d: %v", fault.Status(err), err)
			}
			refused++
		}
		if refused != cap(failed)-perNamespace {
			t.Errorf("%d events were refused, want %d", refused, cap(failed)-perNamespace)
		}
		if _, err := limited.Handle(t.Context(), eventOf("bbb")); err != nil {
			t.Errorf("another namespace: %v", err)
		}
		synctest.Wait()
		if _, err := limited.Handle(t.Context(), eventOf("aaa")); err != nil {
			t.Errorf("after the others have ended: %v", err)
		}
	})
}

// TestEventsOfNamespaceWaitInOrder: after a burst of events, none is given up while others overtake it.
func TestEventsOfNamespaceWaitInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const waiting = 3 * perNamespace
		var mu sync.Mutex
		var handled []string
		limited := LimitNamespaces(handlerFunc(func(_ context.Context, e event.Event) (*event.Event, error) {
			if e.Extensions()["namespace"] == "aaa" {
				mu.Lock()
				handled = append(handled, e.ID())
				mu.Unlock()
			}
			<-time.After(time.Second)
			return nil, nil
		}), waiting)
		var all sync.WaitGroup
		var want []string
		for i := range perNamespace + waiting {
			e := eventOf("aaa")
			e.SetID(fmt.Sprint(i))
			want = append(want, e.ID())
			all.Go(func() {
				if _, err := limited.Handle(t.Context(), e); err != nil {
					t.Errorf("event %s: %v", e.ID(), err)
				}
			})
			synctest.Wait()
		}
		if _, err := limited.Handle(t.Context(), eventOf("aaa")); fault.Status(err) != 503 {
			t.Errorf("an event without room: %v", err)
		}
		if _, err := limited.Handle(t.Context(), eventOf("bbb")); err != nil {
			t.Errorf("another namespace: %v", err)
		}
		all.Wait()
		// The events of one second begin together.
		for _, ids := range [][]string{want, handled} {
			for group := range slices.Chunk(ids, perNamespace) {
				slices.Sort(group)
			}
		}
		if diff := cmp.Diff(want, handled); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}

// TestEventDoesNotWaitForever: a slow namespace answers its other events before the Broker's time limit.
func TestEventDoesNotWaitForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limited := LimitNamespaces(handlerFunc(func(ctx context.Context, _ event.Event) (*event.Event, error) {
			<-ctx.Done()
			return nil, nil
		}), 1)
		busy, end := context.WithCancel(t.Context())
		for range perNamespace {
			go func() { _, _ = limited.Handle(busy, eventOf("aaa")) }()
		}
		synctest.Wait()
		began := time.Now()
		if _, err := limited.Handle(t.Context(), eventOf("aaa")); fault.Status(err) != 503 || time.Since(began) != MaxWait {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		end()
	})
}
