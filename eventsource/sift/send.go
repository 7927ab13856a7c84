package sift

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"drydock.dev/shared/events"
)

// senders is how many events of a sweep are on their way at once. The Broker answers when every function that takes the event has
// worked on it, some seconds at most.
const senders = 8

// sendAll sends what the sweep has found. Of one namespace one event is on its way at a time, and the namespaces take turns, first
// in random order: what a namespace makes slow, delays the namespace.
func (f *Function) sendAll(ctx context.Context, found *findings) error {
	queues := found.queues()
	rand.Shuffle(len(queues), func(i, j int) { queues[i], queues[j] = queues[j], queues[i] })
	waiting := make(chan []look, len(queues)) // a queue is in it, or with a worker, or done
	for _, queue := range queues {
		waiting <- queue
	}
	var left, workers sync.WaitGroup
	left.Add(len(queues))
	go func() { left.Wait(); close(waiting) }()
	var mu sync.Mutex
	var failed error
	for range min(senders, len(queues)) {
		workers.Go(func() {
			for queue := range waiting {
				if err := f.sendOne(ctx, queue[0]); err != nil {
					mu.Lock()
					failed = errors.Join(failed, err)
					mu.Unlock()
				}
				if len(queue) > 1 && ctx.Err() == nil {
					waiting <- queue[1:]
				} else {
					left.Done()
				}
			}
		})
	}
	workers.Wait()
	return errors.Join(failed, context.Cause(ctx))
}

func (f *Function) sendOne(ctx context.Context, l look) error {
	if err := f.send.Send(ctx, events.NewChanged(l.ref, l.seen, l.concerns...)); err != nil {
		return fmt.Errorf("sending what the tick found on %s/%s: %w", l.ref.Namespace, l.ref.Name, err)
	}
	return nil
}

// queues returns the looks by namespace, each queue in the order in which the sweep found them.
func (r *findings) queues() [][]look {
	var queues [][]look
	index := map[string]int{}
	for _, ref := range r.order {
		at, known := index[ref.Namespace]
		if !known {
			at, queues = len(queues), append(queues, nil)
			index[ref.Namespace] = at
		}
		queues[at] = append(queues[at], r.looks[ref])
	}
	return queues
}
