// Package sift is where cluster events come in. Of the many changes that Knative's ApiServerSource reports, it passes
// on the few that a function has to look at, as one small event that names the functions; and on each tick it sweeps
// the cluster for what no event has told.
//
//	in    dev.knative.apiserver.resource.{add,update,delete}; the tick
//	get   nothing on an event; on the tick: StatefulSets, claims, journals, pods, Jobs, Scalers, volumes
//	do    nothing
//	out   object.changed
//	never reads the cluster to judge an event
package sift

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/fault"
	"drydock.dev/shared/kube"
)

// Sender posts events to the Broker.
type Sender interface {
	Send(ctx context.Context, e event.Event) error
}

// Function is sift.
type Function struct {
	client     *kube.Client
	namespaces []string
	retry      time.Duration
	growPeriod time.Duration
	send       Sender
	log        *slog.Logger
	sweeping   sync.Mutex
	// swept is when the latest sweep began that had no error; sweeping guards it.
	swept time.Time
}

// New makes the function.
func New(client *kube.Client, settings api.Settings, send Sender, log *slog.Logger) *Function {
	namespaces := settings.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{""} // all, in one list call
	}
	return &Function{client: client, namespaces: namespaces, retry: settings.SleepRetry, growPeriod: settings.GrowPeriod, send: send, log: log}
}

// Handle answers a change with one event, or with none. It is safe to repeat: the answer's id derives from what it saw.
func (f *Function) Handle(ctx context.Context, e event.Event) (*event.Event, error) {
	if e.Type() == events.Tick {
		if !f.sweeping.TryLock() {
			return nil, nil // each sweep takes memory, and anyone may send ticks; the next one finds what this one misses
		}
		defer f.sweeping.Unlock()
		return nil, f.sweep(ctx)
	}
	l, err := Sift(e, time.Now(), f.retry)
	if err != nil {
		return nil, fault.Permanent(err)
	}
	if len(l.concerns) == 0 {
		return nil, nil
	}
	answer := events.NewChanged(l.ref, l.seen, l.concerns...)
	return &answer, nil
}
