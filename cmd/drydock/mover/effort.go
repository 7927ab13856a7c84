//go:build linux

package mover

import (
	"crypto/sha256"
	"sync"
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

func (l *Limiter) totalWait() time.Duration {
	if l == nil {
		return 0
	}
	return time.Duration(l.waited.Load())
}

// cost returns the cost without the waits for the bandwidth limit.
func (e *effort) cost() Cost {
	small, big := float64(e.small.Load()), float64(e.big.Load())
	if busy := small + big; busy > 0 {
		working := max(0.01, 1-float64(e.waited)/busy)
		small, big = small*working, big*working
	}
	var c Cost
	if n := e.files.Load(); n > 0 {
		c.File = time.Duration(small / float64(n))
	}
	if n := e.bigBytes.Load(); n > 0 && big > 0 {
		c.Rate = float64(n) / (big / float64(time.Second))
	}
	if e.wall > 0 {
		c.Workers = float64(e.tasks.Load()) / float64(e.wall)
	}
	return c
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

// hashRate returns how many bytes per second one worker of this process can hash.
var hashRate = sync.OnceValue(func() float64 {
	buf, h := make([]byte, bufferSize), sha256.New()
	began := time.Now()
	n := 0
	for time.Since(began) < 5*time.Millisecond {
		h.Write(buf)
		n += len(buf)
	}
	return float64(n) / time.Since(began).Seconds()
})
