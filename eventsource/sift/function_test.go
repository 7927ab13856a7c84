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

// slowSender delays the events of one namespace.
type slowSender struct {
	namespace string
	delay     time.Duration
	mu        sync.Mutex
	sent      []string // namespaces
}

func (s *slowSender) Send(ctx context.Context, e event.Event) error {
	namespace, _ := e.Extensions()["namespace"].(string)
	if namespace == s.namespace {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(s.delay):
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, namespace)
	return nil
}

func findingsWith(sets map[string]int) *findings {
	f := &findings{notices: map[events.Ref]notice{}}
	for _, namespace := range slices.Sorted(maps.Keys(sets)) {
		for i := range sets[namespace] {
			f.add(notice{ref: events.Ref{Namespace: namespace, Name: fmt.Sprint("web-", i)}, cause: "1",
				functions: []api.Function{api.Restore}})
		}
	}
	return f
}

func TestSlowNamespaceDoesNotDelayOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &slowSender{namespace: "aaa", delay: 8 * time.Second}
		f := &Function{sender: to, log: slog.New(slog.DiscardHandler)}
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
		defer cancel()
		if err := f.sendAll(ctx, findingsWith(map[string]int{"aaa": 500, "bbb": 40, "ccc": 3})); err == nil {
			t.Error("some events were not sent, and there is no error")
		}
		for namespace, want := range map[string]int{"aaa": 3, "bbb": 40, "ccc": 3} {
			if got := len(slices.DeleteFunc(slices.Clone(to.sent), func(n string) bool { return n != namespace })); got != want {
				t.Errorf("namespace %s: %d events sent, want %d", namespace, got, want)
			}
		}
	})
}

func TestSweepSendsEachEventOnce(t *testing.T) {
	to := &slowSender{}
	f := &Function{sender: to, log: slog.New(slog.DiscardHandler)}
	if err := f.sendAll(t.Context(), findingsWith(map[string]int{"a": 7, "b": 1, "c": 90, "d": 2})); err != nil || len(to.sent) != 100 {
		t.Errorf("%d events sent, error %v", len(to.sent), err)
	}
	if err := f.sendAll(t.Context(), findingsWith(nil)); err != nil {
		t.Error(err)
	}
}
