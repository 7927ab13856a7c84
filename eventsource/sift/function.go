// Package sift receives the cluster's events. Knative's ApiServerSource reports every change of an object. sift forwards the few changes
// that concern a function, as a small event that names the set and the functions. On each tick it sweeps the cluster for unfinished work
// that no event has reported.
//
//	in    dev.knative.apiserver.resource.{add,update,delete}; the tick
//	get   nothing on an event; on the tick: StatefulSets, claims, journals, pods, Jobs, Scalers, volumes, the list of turns
//	do    nothing
//	out   object.changed
//	never reads the cluster to judge an event
package sift

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"golang.org/x/sync/semaphore"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/fault"
	"drydock.dev/shared/kube"
)

// Sender posts events to the Broker.
type Sender interface {
	Send(ctx context.Context, e event.Event) error
}

// Function is the function sift.
type Function struct {
	client     *kube.Client
	namespaces []string
	settings   api.Settings
	sender     Sender
	log        *slog.Logger
	// inFlight has the bytes of the objects that may be decoded at the same time.
	inFlight *semaphore.Weighted
	sweeping sync.Mutex
	// lastSweep is the start of the latest sweep without an error. The mutex sweeping guards it.
	lastSweep time.Time
}

// New returns the function.
func New(client *kube.Client, settings api.Settings, send Sender, log *slog.Logger) *Function {
	namespaces := settings.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{""} // all namespaces, in one list call
	}
	return &Function{client: client, namespaces: namespaces, settings: settings, sender: send, log: log,
		inFlight: semaphore.NewWeighted(maxInFlight)}
}

// Handle replies to a change with one event, or with none. It replies to a tick with none, and sends an event for each set that the sweep
// found. It is safe to repeat: the id of the reply derives from the object's state.
func (f *Function) Handle(ctx context.Context, e event.Event) (*event.Event, error) {
	if e.Type() == events.Tick {
		if !f.sweeping.TryLock() {
			return nil, nil // each sweep takes memory, and any client may send ticks; the next sweep finds the same work
		}
		defer f.sweeping.Unlock()
		return nil, f.sweep(ctx)
	}
	size := min(int64(len(e.Data())), maxObject) // a longer one is refused unread
	if err := f.inFlight.Acquire(ctx, size); err != nil {
		return nil, fmt.Errorf("waiting for room to read %d bytes: %w", size, err)
	}
	defer f.inFlight.Release(size)
	n, err := Sift(e, time.Now(), f.settings.SleepRetry)
	if err != nil {
		return nil, fault.Permanent(err)
	}
	if len(n.functions) == 0 {
		return nil, nil
	}
	reply := events.NewChanged(n.ref, n.cause, n.functions...)
	return &reply, nil
}
