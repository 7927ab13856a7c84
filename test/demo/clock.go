package main

import (
	"sync"
	"time"
)

// clock runs from the request to the end of the scene.
type clock struct {
	mu    sync.Mutex
	began time.Time
}

// end makes everything that comes later not worth telling.
func (c *clock) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.began = time.Time{}
}

func (c *clock) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.began = time.Now()
}

// since is the time from the request to the moment; false when it does not run.
func (c *clock) since(at time.Time) (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.began.IsZero() || at.Before(c.began) {
		return 0, false
	}
	return at.Sub(c.began), true
}
