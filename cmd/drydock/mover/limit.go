//go:build linux

package mover

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Limiter limits how many bytes per second all passes that share it read and write. A nil Limiter sets no limit.
type Limiter struct {
	rate   float64 // bytes per second
	waited atomic.Int64

	mu   sync.Mutex
	free time.Time // when the granted bytes are used up
}

// NewLimiter returns a limiter, or nil for 0 bytes per second.
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

// wait waits until n bytes that were read or written are within the limit, or until the context ends.
func (l *Limiter) wait(ctx context.Context, n int64) {
	if l == nil || n <= 0 {
		return
	}
	began := time.Now()
	pause := l.reserve(began, n)
	if pause < time.Millisecond { // below the precision of a timer
		return
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	l.waited.Add(int64(time.Since(began)))
}

// piece returns how many bytes to copy at a time, so that each wait is short and can be interrupted.
func (l *Limiter) piece(most int64) int64 {
	if l == nil {
		return most
	}
	return min(most, max(bufferSize, int64(l.rate/20)))
}
