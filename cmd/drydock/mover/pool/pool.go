//go:build linux

// Package pool runs tasks that add other tasks on a fixed number of workers.
package pool

import (
	"context"
	"runtime"
	"sync"
)

// Task is a piece of work. It may add other tasks. Its context ends with the first error of any task.
type Task func(ctx context.Context) error

// Pool runs tasks on a fixed number of workers, the newest task first. A tree is walked depth-first in this way, so the
// number of waiting tasks stays near depth times breadth.
type Pool struct {
	mu    sync.Mutex
	wake  *sync.Cond
	tasks []Task
	busy  int
	err   error
	stop  context.CancelFunc
}

// Run runs the tasks, and the tasks they add, to the end. It returns the first error, or the context's cause.
func Run(ctx context.Context, workers int, fill func(p *Pool)) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	p := &Pool{stop: stop}
	p.wake = sync.NewCond(&p.mu)
	fill(p)
	var all sync.WaitGroup
	for range workers {
		all.Go(func() { p.work(ctx) })
	}
	all.Wait()
	if p.err == nil {
		p.err = context.Cause(ctx)
	}
	return p.err
}

func (p *Pool) Add(t Task) {
	p.mu.Lock()
	p.tasks = append(p.tasks, t)
	p.mu.Unlock()
	p.wake.Signal()
}

// work runs tasks until there are none and no busy worker can add any.
func (p *Pool) work(ctx context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		for len(p.tasks) == 0 && p.busy > 0 {
			p.wake.Wait()
		}
		if len(p.tasks) == 0 {
			p.wake.Broadcast() // all done
			return
		}
		last := len(p.tasks) - 1
		t := p.tasks[last]
		p.tasks[last] = nil
		p.tasks = p.tasks[:last]
		p.busy++
		p.mu.Unlock()
		err := context.Cause(ctx)
		if err == nil {
			err = t(ctx)
		}
		p.mu.Lock()
		p.busy--
		if err != nil {
			p.fail(err)
		}
	}
}

// fail stores the first error and drops all waiting tasks. The caller holds the lock.
func (p *Pool) fail(err error) {
	if p.err == nil {
		p.err = err
	}
	p.tasks = nil
	p.stop()
	p.wake.Broadcast()
}

// Workers returns n or, for 0, a number that depends on the CPUs. It exceeds them, because a copy mostly waits for
// storage.
func Workers(n int) int {
	if n > 0 {
		return n
	}
	return min(max(2*runtime.GOMAXPROCS(0), 4), 32)
}
