//go:build linux

package mover

import (
	"crypto/sha256"
	"sync"
	"sync/atomic"
	"time"
)

// effort is the work of a pass's phase, in nanoseconds of all its workers together.
type effort struct {
	wall   time.Duration
	waited time.Duration // for the bandwidth limit, all workers together
	tasks  atomic.Int64  // of all kinds

	files    atomic.Int64 // small ones whose contents were treated
	small    atomic.Int64
	bigBytes atomic.Int64
	big      atomic.Int64
}

// contents counts the treatment of one file's contents.
func (e *effort) contents(size, data int64, began time.Time) {
	took := int64(time.Since(began))
	if size < patchLeast {
		e.files.Add(1)
		e.small.Add(took)
		return
	}
	e.bigBytes.Add(data)
	e.big.Add(took)
}

// task counts a whole task of a worker.
func (e *effort) task(began time.Time) { e.tasks.Add(int64(time.Since(began))) }

// time runs a phase.
func (e *effort) time(l *Limiter, phase func() error) error {
	began, waited := time.Now(), l.total()
	err := phase()
	e.wall, e.waited = time.Since(began), l.total()-waited
	return err
}

func (l *Limiter) total() time.Duration {
	if l == nil {
		return 0
	}
	return time.Duration(l.waited.Load())
}

// cost leaves the waits for the bandwidth limit out.
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

// metadata is the share of the phase that was for other things than contents.
func (e *effort) metadata() time.Duration {
	tasks := e.tasks.Load()
	if tasks <= 0 {
		return e.wall
	}
	share := float64(e.small.Load()+e.big.Load()) / float64(tasks)
	return time.Duration(float64(e.wall) * max(0, 1-share))
}

// hashRate returns how many bytes one worker of this process hashes in a second, at most.
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
