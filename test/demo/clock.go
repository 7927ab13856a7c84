package main

import (
	"sync"
	"time"
)

// clock counts from the request on.
type clock struct {
	mu    sync.Mutex
	began time.Time
}

func (c *clock) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.began = time.Now()
}

// since is the time from the request to the moment; false when there was no request before it.
func (c *clock) since(at time.Time) (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.began.IsZero() || at.Before(c.began) {
		return 0, false
	}
	return at.Sub(c.began), true
}
