//go:build linux

package mover

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Limiter bounds how many bytes all passes that share it read and write in a second. A nil Limiter has no bound.
type Limiter struct {
	rate   float64 // bytes a second
	waited atomic.Int64

	mu   sync.Mutex
	free time.Time // when the bytes that were granted are used up
}

// NewLimiter returns nil for 0 bytes a second.
func NewLimiter(bytesPerSecond int64) *Limiter {
	if bytesPerSecond <= 0 {
		return nil
	}
	return &Limiter{rate: float64(bytesPerSecond)}
}

// reserve grants n bytes and returns how long to wait before the next ones.
func (l *Limiter) reserve(now time.Time, n int64) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.free.Before(now) {
		l.free = now
	}
	l.free = l.free.Add(time.Duration(float64(n) / l.rate * float64(time.Second)))
	return l.free.Sub(now)
}

// took waits until n bytes that were read or written fit the bound, or until the context ends.
func (l *Limiter) took(ctx context.Context, n int64) {
	if l == nil || n <= 0 {
		return
	}
	began := time.Now()
	wait := l.reserve(began, n)
	if wait < time.Millisecond { // shorter than a timer is exact
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	l.waited.Add(int64(time.Since(began)))
}

// piece returns how much to copy at a time, so that a wait is short and can be interrupted.
func (l *Limiter) piece(most int64) int64 {
	if l == nil {
		return most
	}
	return min(most, max(bufferSize, int64(l.rate/20)))
}
