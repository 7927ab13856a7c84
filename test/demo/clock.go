package main

import (
	"sync"
	"time"
)

// clock measures the time since the request.
type clock struct {
	mu    sync.Mutex
	began time.Time
}

// stop stops the clock, so that later events are not printed.
func (c *clock) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.began = time.Time{}
}

func (c *clock) start() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.began = time.Now()
}

// since returns the time from the request to the moment; false if the clock is stopped or had not started.
func (c *clock) since(at time.Time) (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.began.IsZero() || at.Before(c.began) {
		return 0, false
	}
	return at.Sub(c.began), true
}
