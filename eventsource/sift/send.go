package sift

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"drydock.dev/shared/events"
)

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
