//go:build linux

package mover

import (
	"sync/atomic"
	"time"
)

// effort is the time that a phase took: as wall clock, and in nanoseconds summed over its workers.
type effort struct {
	wall   time.Duration
	waited time.Duration // for the bandwidth limit, summed over the workers
	tasks  atomic.Int64  // all work, in nanoseconds

	files    atomic.Int64 // number of small files that were processed
	small    atomic.Int64
	bigBytes atomic.Int64
	big      atomic.Int64
}

// contents adds the processing of one file's contents.
func (e *effort) contents(size, data int64, began time.Time) {
	took := int64(time.Since(began))
	if size < bigFileMin {
		e.files.Add(1)
		e.small.Add(took)
		return
	}
	e.bigBytes.Add(data)
	e.big.Add(took)
}

// task adds a complete task of a worker.
func (e *effort) task(began time.Time) { e.tasks.Add(int64(time.Since(began))) }

// measure runs a phase and takes its time.
func (e *effort) measure(l *Limiter, phase func() error) error {
	began, waited := time.Now(), l.totalWait()
	err := phase()
	e.wall, e.waited = time.Since(began), l.totalWait()-waited
	return err
}

// metadata returns the part of the phase's duration that was not spent on contents.
func (e *effort) metadata() time.Duration {
	tasks := e.tasks.Load()
	if tasks <= 0 {
		return e.wall
	}
	share := float64(e.small.Load()+e.big.Load()) / float64(tasks)
	return time.Duration(float64(e.wall) * max(0, 1-share))
}

// costOf returns the cost in several phases, without the waits for the bandwidth limit.
func costOf(phases ...*effort) (c Cost) {
	var small, big, waited, tasks, wall, files, bytes float64
	for _, e := range phases {
		small, big = small+float64(e.small.Load()), big+float64(e.big.Load())
		waited, wall, tasks = waited+float64(e.waited), wall+float64(e.wall), tasks+float64(e.tasks.Load())
		files, bytes = files+float64(e.files.Load()), bytes+float64(e.bigBytes.Load())
	}
	working := 1.0
	if small+big > 0 {
		working = max(0.01, 1-waited/(small+big))
	}
	if files > 0 {
		c.File = time.Duration(small * working / files)
	}
	if bytes > 0 && big > 0 {
		c.Rate = bytes / (big * working / float64(time.Second))
	}
	if wall > 0 {
		c.Workers = tasks / wall
	}
	return c
}
