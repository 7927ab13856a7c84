//go:build cluster

package e2e

import (
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"
)

// puts are keys with their values that a database has acknowledged.
type puts struct {
	mu     sync.Mutex
	acked  map[string]string
	failed int
	last   time.Time
	gap    time.Duration // the longest time between two of them
}

func newPuts() *puts { return &puts{acked: map[string]string{}, last: time.Now()} }

// note takes down how a put ended.
func (p *puts) note(key, value string, acknowledged bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !acknowledged {
		p.failed++
		return
	}
	p.acked[key], p.gap, p.last = value, max(p.gap, time.Since(p.last)), time.Now()
}

// count is how many puts were acknowledged.
func (p *puts) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.acked)
}

// acknowledged returns the puts that were acknowledged until now.
func (p *puts) acknowledged(t *testing.T) map[string]string {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	t.Logf("%d puts were acknowledged, %d failed, and the longest time without one was %s", len(p.acked), p.failed, p.gap)
	return maps.Clone(p.acked)
}

// awaitAcknowledged waits until as many puts were acknowledged.
func (s service) awaitAcknowledged(p *puts, want int) {
	s.Eventually(fmt.Sprintf("%d puts are acknowledged", want), func() string {
		if n := p.count(); n < want {
			return fmt.Sprintf("%d are", n)
		}
		return ""
	})
}
