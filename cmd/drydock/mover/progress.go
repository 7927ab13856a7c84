//go:build linux

package mover

import (
	"sync"
	"sync/atomic"
	"time"

	"drydock.dev/shared/moverreport"
)

// meter counts, and tells at every phase change and at most once an interval.
type meter struct {
	bytes, bytesTotal, files, filesTotal, steps atomic.Int64

	mu   sync.Mutex // guards the order of what is told
	tell func(moverreport.Progress)
	last moverreport.Progress
	end  chan struct{}
	done chan struct{}
}

// newMeter starts telling; nothing is told if tell is nil. Its close must be called.
func newMeter(tell func(moverreport.Progress), interval time.Duration) *meter {
	m := &meter{tell: tell, end: make(chan struct{}), done: make(chan struct{})}
	if tell == nil || interval <= 0 {
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

// enter begins a phase. Done starts at nothing, except for the sync: it shows what the copy came to.
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

// report tells the counts, unless they are what was told last.
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
	if m.tell != nil {
		m.tell(now)
	}
}

// correct replaces an estimate of a file's data by what it turned out to be.
func (m *meter) correct(estimate, actual int64) {
	if estimate != actual {
		m.bytesTotal.Add(actual - estimate)
	}
}
