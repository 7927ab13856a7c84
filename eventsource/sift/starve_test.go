package sift

import (
	"context"
	"log/slog"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/kube"
	"drydock.dev/test/kit/build"
)

// fewSends ends the sweep's time after some events, like a Broker that replies slowly.
type fewSends struct {
	left int
	stop context.CancelFunc
	seen map[string]int
}

func (s *fewSends) Send(_ context.Context, e event.Event) error {
	ref, _ := events.SetOf(e)
	s.seen[ref.Name]++
	if s.left--; s.left == 0 {
		s.stop()
	}
	return nil
}

// TestLongQueueStarvesNoSet: a namespace has more sets with work than a sweep has time for. Each set must get an event in some sweep.
func TestLongQueueStarvesNoSet(t *testing.T) {
	seen := map[string]int{}
	for range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		f := New(kube.NewClient(build.EmptyLists().Serve(t)), api.Settings{}, &fewSends{left: 3, stop: cancel, seen: seen},
			slog.New(slog.DiscardHandler))
		_ = f.sendAll(ctx, findingsWith(map[string]int{"shop": 6}))
		cancel()
	}
	if len(seen) != 6 {
		t.Errorf("in 100 sweeps only %d of 6 sets got events: %v", len(seen), seen)
	}
}
