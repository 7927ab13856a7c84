//go:build cluster

package e2e

import (
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"
)

// puts are the acknowledged keys of a database with their values.
type puts struct {
	mu     sync.Mutex
	acked  map[string]string
	failed int
	last   time.Time
	gap    time.Duration // the longest time between two acknowledgements
}

func newPuts() *puts { return &puts{acked: map[string]string{}, last: time.Now()} }

// note records the result of a put.
func (p *puts) note(key, value string, acknowledged bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !acknowledged {
		p.failed++
		return
	}
	p.acked[key], p.gap, p.last = value, max(p.gap, time.Since(p.last)), time.Now()
}

// count returns the number of acknowledged puts.
func (p *puts) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.acked)
}

// acknowledged returns the acknowledged puts so far.
func (p *puts) acknowledged(t *testing.T) map[string]string {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	t.Logf("%d puts were acknowledged, %d failed, and the longest time without one was %s", len(p.acked), p.failed, p.gap)
	return maps.Clone(p.acked)
}

// awaitAcknowledged waits for the number of acknowledged puts.
func (s service) awaitAcknowledged(p *puts, want int) {
	s.Eventually(fmt.Sprintf("%d puts are acknowledged", want), func() string {
		if n := p.count(); n < want {
			return fmt.Sprintf("%d are", n)
		}
		return ""
	})
}
