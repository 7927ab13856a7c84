package serve

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

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
		}))
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
