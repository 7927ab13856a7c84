package main

import (
	"sync"
	"time"
)

// downtime measures how long each replica, and the set as a whole, did not serve.
type downtime struct {
	mu           sync.Mutex
	downSince    map[string]time.Time // by replica: when it went down; zero if it is up
	total        map[string]time.Duration
	allDownSince time.Time // when the last replica went down; zero if one is up
	setTotal     time.Duration
}

func newDowntime() *downtime {
	return &downtime{downSince: map[string]time.Time{}, total: map[string]time.Duration{}}
}

// observe records that a replica is up or down. It reports whether the state changed. For a replica that comes up it also returns
// the length of the downtime. A replica whose first observation is down counts as down from that moment.
func (d *downtime) observe(name string, up bool, at time.Time) (changed bool, length time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	since, known := d.downSince[name]
	if known && since.IsZero() == up {
		return false, 0
	}
	if !up {
		d.downSince[name] = at
		if d.up() == 0 {
			d.allDownSince = at
		}
		return true, 0
	}
	d.downSince[name] = time.Time{}
	if known {
		length = at.Sub(since)
		d.total[name] += length
	}
	if !d.allDownSince.IsZero() {
		d.setTotal, d.allDownSince = d.setTotal+at.Sub(d.allDownSince), time.Time{}
	}
	return true, length
}

func (d *downtime) up() int {
	count := 0
	for _, since := range d.downSince {
		if since.IsZero() {
			count++
		}
	}
	return count
}

// ofReplica returns the total downtime of the replica, which must be up.
func (d *downtime) ofReplica(name string) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.total[name]
}

// ofSet returns the total time without any replica up.
func (d *downtime) ofSet() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.setTotal
}

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
