//go:build linux

// Package forecast predicts how long a final pass takes, from the measurements of the first passes.
package forecast

import (
	"sync/atomic"
	"time"

	"drydock.dev/cmd/drydock/mover/progress"
	"drydock.dev/cmd/drydock/mover/tree"
)

// Figures are the measurements of a first pass, and the work that it leaves to the final pass.
type Figures struct {
	Scan      time.Duration // of reading the source's tree
	Metadata  time.Duration // of comparing all entries on both sides, without contents
	Flush     time.Duration // of the target
	Cost      Cost          // of copying or verifying contents
	Remaining Work
}

// Work is the amount of change: the files whose contents the final pass must read on both sides, and the entries it must
// delete. Files of at least BigFileMin are big, others are small.
type Work struct {
	Files     int64 // small files
	Bytes     int64 // data of big files
	Largest   int64 // data of the largest one
	Kept      int64 // the part of Bytes with kept hashes: the verification reads only what differs
	Deletions int64 // entries to delete, at least
}

// toVerify returns the work of the verification.
func (w Work) toVerify() Work {
	w.Bytes -= w.Kept
	w.Largest = min(w.Largest, w.Bytes)
	return w
}

// add counts a file.
func (w *Work) add(size, data int64) {
	if size < tree.BigFileMin {
		w.Files++
		return
	}
	w.Bytes += data
	w.Largest = max(w.Largest, data)
}

// Forecast returns how long a final pass would take if it started now.
func (f Figures) Forecast() time.Duration {
	return f.Scan + f.Metadata + f.Flush + f.Contents()
}

// Contents returns the part of the forecast that depends on changes: reading and writing contents, and deleting. A missing measurement is
// that of slow storage.
func (f Figures) Contents() time.Duration {
	c := f.Cost.filledFrom(defaultCost)
	return c.timeFor(f.Remaining) + c.timeFor(f.Remaining.toVerify()) + time.Duration(f.Remaining.Deletions)*deletionCost
}

// WithGapsFrom returns the figures with missing measurements taken from an earlier pass.
func (f Figures) WithGapsFrom(earlier Figures) Figures {
	f.Cost = f.Cost.filledFrom(earlier.Cost)
	return f
}

// Cost is the time that one worker needs to copy or to verify files, as a pass has measured it.
type Cost struct {
	File    time.Duration // for a small file; 0 if it was not measured
	Rate    float64       // bytes per second of big files; 0 if it was not measured
	Workers float64       // average number of busy workers
}

// timeFor returns how long the work takes. A single file is read by one worker, so the largest file is a lower bound.
func (c Cost) timeFor(w Work) time.Duration {
	busy := float64(w.Files)*c.File.Seconds() + c.seconds(w.Bytes)
	return inSeconds(max(busy/max(1, c.Workers), c.seconds(w.Largest)))
}

func (c Cost) seconds(bytes int64) float64 { return float64(bytes) / c.Rate }

// filledFrom returns the cost with missing measurements taken from an earlier pass.
func (c Cost) filledFrom(earlier Cost) Cost {
	if c.File == 0 {
		c.File = earlier.File
	}
	if c.Rate == 0 {
		c.Rate = earlier.Rate
	}
	if c.Workers == 0 {
		c.Workers = earlier.Workers
	}
	return c
}

// deletionCost is the time to delete one entry.
const deletionCost = 50 * time.Microsecond

func inSeconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// defaultCost is the cost on slow storage. It is used until a pass measures one: a pass that finds no change measures
// nothing.
var defaultCost = Cost{File: 20 * time.Millisecond, Rate: 50e6, Workers: 1}

// Effort is the time that a phase took: as wall clock, and in nanoseconds summed over its workers.
type Effort struct {
	Wall   time.Duration
	Waited time.Duration // for the bandwidth limit, summed over the workers
	tasks  atomic.Int64  // all work, in nanoseconds

	files    atomic.Int64 // number of small files that were processed
	small    atomic.Int64
	bigBytes atomic.Int64
	big      atomic.Int64
}

// Contents adds the processing of one file's contents.
func (e *Effort) Contents(size, data int64, began time.Time) {
	took := int64(time.Since(began))
	if size < tree.BigFileMin {
		e.files.Add(1)
		e.small.Add(took)
		return
	}
	e.bigBytes.Add(data)
	e.big.Add(took)
}

// Task adds a complete task of a worker.
func (e *Effort) Task(began time.Time) { e.tasks.Add(int64(time.Since(began))) }

// Measure runs a phase and takes its time.
func (e *Effort) Measure(l *progress.Limiter, phase func() error) error {
	began, waited := time.Now(), l.TotalWait()
	err := phase()
	e.Wall, e.Waited = time.Since(began), l.TotalWait()-waited
	return err
}

// Metadata returns the part of the phase's duration that was not spent on contents.
func (e *Effort) Metadata() time.Duration {
	tasks := e.tasks.Load()
	if tasks <= 0 {
		return e.Wall
	}
	share := float64(e.small.Load()+e.big.Load()) / float64(tasks)
	return time.Duration(float64(e.Wall) * max(0, 1-share))
}

// CostOf returns the cost in several phases, without the waits for the bandwidth limit.
func CostOf(phases ...*Effort) (c Cost) {
	var small, big, waited, tasks, wall, files, bytes float64
	for _, e := range phases {
		small, big = small+float64(e.small.Load()), big+float64(e.big.Load())
		waited, wall, tasks = waited+float64(e.Waited), wall+float64(e.Wall), tasks+float64(e.tasks.Load())
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
