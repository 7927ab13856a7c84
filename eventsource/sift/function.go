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
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"golang.org/x/sync/semaphore"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/fault"
	"drydock.dev/shared/grow"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/plan"
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

// growthPlan reads which namespaces have default rules for growth, and returns the schedule by which growth is swept.
func (f *Function) growthPlan(ctx context.Context, namespace string) (grow.Schedule, error) {
	hasRules := map[string]bool{}
	err := kube.Named(ctx, f.client, plan.ConfigMaps, namespace, api.GrowConfigMap, &corev1.ConfigMapList{}, func(l *corev1.ConfigMapList) {
		for i := range l.Items {
			hasRules[l.Items[i].Namespace] = true
		}
	})
	if apierrors.IsForbidden(err) { // the ClusterRoles may be older than this Drydock; the rest of the sweep continues
		f.log.Warn("cannot read the namespaces' default rules for growth; apply the current ClusterRoles", "error", err.Error())
		err = nil
	}
	return grow.Schedule{
		Period:  f.settings.GrowPeriod,
		Default: func(namespace string) bool { return hasRules[namespace] },
	}, err
}

// parallelSends is the number of events that a sweep sends at the same time. The Broker replies when every subscribed function has handled
// the event, after some seconds at most.
const parallelSends = 8

// sendAll sends an event for each notice of the sweep. It sends one event of a namespace at a time, and the namespaces take turns in
// random order. A namespace with slow events therefore delays only itself. Each queue begins at a random place, so that no set is always
// behind the others if there is too little time for all.
func (f *Function) sendAll(ctx context.Context, found *findings) error {
	queues := found.queues()
	for i, queue := range queues {
		first := rand.IntN(len(queue))
		queues[i] = slices.Concat(queue[first:], queue[:first])
	}
	rand.Shuffle(len(queues), func(i, j int) { queues[i], queues[j] = queues[j], queues[i] })
	ready := make(chan []notice, len(queues)) // each unfinished queue is in the channel or with a worker
	for _, queue := range queues {
		ready <- queue
	}
	var unfinished, workers sync.WaitGroup
	unfinished.Add(len(queues))
	go func() { unfinished.Wait(); close(ready) }()
	var mu sync.Mutex
	var failed error
	for range min(parallelSends, len(queues)) {
		workers.Go(func() {
			for queue := range ready {
				if err := f.sendNotice(ctx, queue[0]); err != nil {
					mu.Lock()
					failed = errors.Join(failed, err)
					mu.Unlock()
				}
				if len(queue) > 1 && ctx.Err() == nil {
					ready <- queue[1:]
				} else {
					unfinished.Done()
				}
			}
		})
	}
	workers.Wait()
	return errors.Join(failed, context.Cause(ctx))
}

func (f *Function) sendNotice(ctx context.Context, n notice) error {
	if err := f.sender.Send(ctx, events.NewChanged(n.ref, n.cause, n.functions...)); err != nil {
		return fmt.Errorf("sending the event of the sweep for %s/%s: %w", n.ref.Namespace, n.ref.Name, err)
	}
	return nil
}
