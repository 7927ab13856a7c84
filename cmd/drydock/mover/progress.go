//go:build linux

package mover

import (
	"sync"
	"sync/atomic"
	"time"

	"drydock.dev/shared/moverreport"
)

// meter counts the progress of a copy. It reports at every phase change, and otherwise at most once per interval.
type meter struct {
	bytes, bytesTotal, files, filesTotal, steps atomic.Int64

	mu     sync.Mutex // keeps the reports in order
	notify func(moverreport.Progress)
	last   moverreport.Progress
	end    chan struct{}
	done   chan struct{}
}

// newMeter starts a meter. Without a callback it only counts. The caller must close it.
func newMeter(notify func(moverreport.Progress), interval time.Duration) *meter {
	m := &meter{notify: notify, end: make(chan struct{}), done: make(chan struct{})}
	if notify == nil || interval <= 0 {
		close(m.done)
		return m
	}
	go m.run(interval)
	return m
}

func (m *meter) run(interval time.Duration) {
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

func (m *meter) close() {
	close(m.end)
	<-m.done
}

// enter begins a phase with zero counts. The sync phase continues to show the counts of the copy.
func (m *meter) enter(p moverreport.Phase) {
	if p != moverreport.PhaseSync {
		m.bytes.Store(0)
		m.files.Store(0)
	}
	m.report(p)
}

func (m *meter) current() moverreport.Phase {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last.Phase
}

// report passes the counts on, unless they equal the last report.
func (m *meter) report(p moverreport.Phase) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := moverreport.Progress{Phase: p, BytesTotal: m.bytesTotal.Load(), FilesDone: m.files.Load(), FilesTotal: m.filesTotal.Load(),
		Steps: m.steps.Load()}
	now.BytesDone = min(m.bytes.Load(), now.BytesTotal)
	if now == m.last {
		return
	}
	m.last = now
	if m.notify != nil {
		m.notify(now)
	}
}

// correct replaces an estimate of a file's data by the actual number of bytes.
func (m *meter) correct(estimate, actual int64) {
	if estimate != actual {
		m.bytesTotal.Add(actual - estimate)
	}
}
