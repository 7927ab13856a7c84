package main

import (
	"sync"
	"time"
)

// downtime measures for how long each replica, and the set as a whole, served nobody.
type downtime struct {
	mu    sync.Mutex
	since map[string]time.Time // by replica: when it went down; zero while it is up
	total map[string]time.Duration
	none  time.Time // since when no replica is up; zero while one is
	all   time.Duration
}

func newDowntime() *downtime {
	return &downtime{since: map[string]time.Time{}, total: map[string]time.Duration{}}
}

// observe takes in that a replica is up or down. It reports whether that is a change, and how long it was down when it
// comes up. A replica that is seen for the first time and is down has not been up yet: it counts from then.
func (d *downtime) observe(name string, up bool, at time.Time) (changed bool, was time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	since, known := d.since[name]
	if known && since.IsZero() == up {
		return false, 0
	}
	if !up {
		d.since[name] = at
		if d.up() == 0 {
			d.none = at
		}
		return true, 0
	}
	d.since[name] = time.Time{}
	if known {
		was = at.Sub(since)
		d.total[name] += was
	}
	if !d.none.IsZero() {
		d.all, d.none = d.all+at.Sub(d.none), time.Time{}
	}
	return true, was
}

func (d *downtime) up() int {
	count := 0
	for _, since := range d.since {
		if since.IsZero() {
			count++
		}
	}
	return count
}

// of is how long the replica was down in all; it must be up.
func (d *downtime) of(name string) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.total[name]
}

// ofAll is how long no replica was up.
func (d *downtime) ofAll() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.all
}
