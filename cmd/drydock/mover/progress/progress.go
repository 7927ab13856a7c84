//go:build linux

// Package progress counts what a copy has done, and limits its bandwidth.
package progress

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"drydock.dev/cmd/drydock/mover/fsys"
	"drydock.dev/shared/moverreport"
)

// Meter counts the progress of a copy. It reports at every phase change, and otherwise at most once per interval.
type Meter struct {
	Bytes, BytesTotal, Files, FilesTotal, Steps atomic.Int64

	mu     sync.Mutex // keeps the reports in order
	notify func(moverreport.Progress)
	last   moverreport.Progress
	end    chan struct{}
	done   chan struct{}
}

// NewMeter starts a meter. Without a callback it only counts. The caller must close it.
func NewMeter(notify func(moverreport.Progress), interval time.Duration) *Meter {
	m := &Meter{notify: notify, end: make(chan struct{}), done: make(chan struct{})}
	if notify == nil || interval <= 0 {
		close(m.done)
		return m
	}
	go m.run(interval)
	return m
}

func (m *Meter) run(interval time.Duration) {
	defer close(m.done)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-m.end:
			return
		case <-ticker.C:
			m.report(m.current())
		}
	}
}

func (m *Meter) Close() {
	close(m.end)
	<-m.done
}

// Enter begins a phase with zero counts. The sync phase continues to show the counts of the copy.
func (m *Meter) Enter(p moverreport.Phase) {
	if p != moverreport.PhaseSync {
		m.Bytes.Store(0)
		m.Files.Store(0)
	}
	m.report(p)
}

func (m *Meter) current() moverreport.Phase {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last.Phase
}

// report passes the counts on, unless they equal the last report.
func (m *Meter) report(p moverreport.Phase) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := moverreport.Progress{Phase: p, BytesTotal: m.BytesTotal.Load(), FilesDone: m.Files.Load(), FilesTotal: m.FilesTotal.Load(),
		Steps: m.Steps.Load()}
	now.BytesDone = min(m.Bytes.Load(), now.BytesTotal)
	if now == m.last {
		return
	}
	m.last = now
	if m.notify != nil {
		m.notify(now)
	}
}

// Correct replaces an estimate of a file's data by the actual number of bytes.
func (m *Meter) Correct(estimate, actual int64) {
	if estimate != actual {
		m.BytesTotal.Add(actual - estimate)
	}
}

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

func (l *Limiter) TotalWait() time.Duration {
	if l == nil {
		return 0
	}
	return time.Duration(l.waited.Load())
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

// Wait waits until n bytes that were read or written are within the limit, or until the context ends.
func (l *Limiter) Wait(ctx context.Context, n int64) {
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

// Piece returns how many bytes to copy at a time, so that each wait is short and can be interrupted.
func (l *Limiter) Piece(most int64) int64 {
	if l == nil {
		return most
	}
	return min(most, max(fsys.BufferSize, int64(l.rate/20)))
}
