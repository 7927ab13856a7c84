//go:build linux

package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"drydock.dev/cmd/drydock/mover"
)

// withSignals returns a context that a signal cancels, with the signal as its cause.
func withSignals(ctx context.Context) (context.Context, func()) {
	// The same signal may also cancel the parent through another handler. Only this handler knows which signal it was, so
	// it checks for a signal before it uses the parent's cause.
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	if ctx.Err() != nil { // cancelled before a signal could arrive here
		cancel(context.Cause(ctx))
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	var done sync.WaitGroup
	done.Go(func() {
		select {
		case s := <-signals:
			cancel(&mover.Interruption{Signal: s})
		case <-ctx.Done():
			cancel(parentCause(ctx, signals))
		case <-own.Done():
		}
	})
	return own, func() {
		signal.Stop(signals)
		cancel(nil)
		done.Wait()
	}
}

// signalGrace is how long after the parent's end a signal still counts as its cause.
const signalGrace = 50 * time.Millisecond

func parentCause(ctx context.Context, signals <-chan os.Signal) error {
	select {
	case s := <-signals:
		return &mover.Interruption{Signal: s}
	case <-time.After(signalGrace):
		return context.Cause(ctx)
	}
}
