package sift

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
)

// slowFor takes long for the events of one namespace.
type slowFor struct {
	namespace string
	takes     time.Duration
	mu        sync.Mutex
	sent      []string // namespaces
}

func (s *slowFor) Send(ctx context.Context, e event.Event) error {
	namespace, _ := e.Extensions()["namespace"].(string)
	if namespace == s.namespace {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(s.takes):
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, namespace)
	return nil
}

func found(sets map[string]int) *findings {
	f := &findings{looks: map[events.Ref]look{}}
	for _, namespace := range slices.Sorted(maps.Keys(sets)) {
		for i := range sets[namespace] {
			f.add(look{ref: events.Ref{Namespace: namespace, Name: fmt.Sprint("web-", i)}, seen: "1", concerns: []api.Function{api.Restore}})
		}
	}
	return f
}

func TestSlowNamespaceDoesNotDelayOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &slowFor{namespace: "aaa", takes: 8 * time.Second}
		f := &Function{send: to, log: slog.New(slog.DiscardHandler)}
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
		defer cancel()
		if err := f.sendAll(ctx, found(map[string]int{"aaa": 500, "bbb": 40, "ccc": 3})); err == nil {
			t.Error("not all was sent, and that is no error")
		}
		for namespace, want := range map[string]int{"aaa": 3, "bbb": 40, "ccc": 3} {
			if got := len(slices.DeleteFunc(slices.Clone(to.sent), func(n string) bool { return n != namespace })); got != want {
				t.Errorf("namespace %s: %d events sent, want %d", namespace, got, want)
			}
		}
	})
}

func TestSweepSendsEachEventOnce(t *testing.T) {
	to := &slowFor{}
	f := &Function{send: to, log: slog.New(slog.DiscardHandler)}
	if err := f.sendAll(t.Context(), found(map[string]int{"a": 7, "b": 1, "c": 90, "d": 2})); err != nil || len(to.sent) != 100 {
		t.Errorf("%d events sent, error %v", len(to.sent), err)
	}
	if err := f.sendAll(t.Context(), found(nil)); err != nil {
		t.Error(err)
	}
}
