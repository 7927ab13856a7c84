//go:build linux

package mover

import "time"

// Figures are the measurements of a warm pass, and the work that it leaves to the final pass.
type Figures struct {
	Scan     time.Duration // reading the source's tree
	Metadata time.Duration // looking at all entries on both sides, without their contents
	Flush    time.Duration // of the target
	Copy     Cost          // of making files of the target equal
	Check    Cost          // of verifying files
	Left     Work
}

// Work is what has changed: the files whose contents the final pass has to read on both sides, and what it has to delete.
// patchLeast tells big files from small ones.
type Work struct {
	Files   int64 // small files
	Bytes   int64 // data of big files
	Largest int64 // data of the largest one
	Gone    int64 // entries to delete, at least
}

// Cost is the time that contents take a worker.
type Cost struct {
	File    time.Duration // for a small file; 0 if it was not measured
	Rate    float64       // bytes of a big file in a second, which are read on both sides; 0 if it was not measured
	Workers float64       // that were busy at once
}

// Forecast returns how long a final pass would take now.
func (f Figures) Forecast() time.Duration {
	return f.Scan + f.Metadata + f.Flush + f.Contents()
}

// Contents returns how much of the forecast is for changes: for reading and writing contents, and for deleting.
func (f Figures) Contents() time.Duration {
	copying, checking := f.costs()
	return copying.of(f.Left) + checking.of(f.Left) + time.Duration(f.Left.Gone)*goneCost
}

// goneCost is how long the deletion of an entry takes.
const goneCost = 50 * time.Microsecond

// of returns how long some work takes. One file is read by one worker.
func (c Cost) of(w Work) time.Duration {
	busy := float64(w.Files)*c.File.Seconds() + c.seconds(w.Bytes)
	return inSeconds(max(busy/max(1, c.Workers), c.seconds(w.Largest)))
}

func (c Cost) seconds(bytes int64) float64 { return float64(bytes) / c.Rate }

func inSeconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// or fills what was not measured from an earlier pass.
func (c Cost) or(earlier Cost) Cost {
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

// After fills gaps in the measurements from the pass before.
func (f Figures) After(earlier Figures) Figures {
	f.Copy, f.Check = f.Copy.or(earlier.Copy), f.Check.or(earlier.Check)
	return f
}

// guess is the cost on slow storage. It holds until a pass measures one: a pass that finds no change measures nothing.
var guess = Cost{File: 20 * time.Millisecond, Rate: 50e6, Workers: 1}

// costs returns both costs. A gap is taken from the other one, or guessed. Verifying is not faster than this process can hash.
func (f Figures) costs() (copying, checking Cost) {
	copying = f.Copy.or(f.Check).or(guess)
	checking = copying
	checking.Rate = min(checking.Rate, hashRate())
	return copying, f.Check.or(checking)
}

// add counts a file.
func (w *Work) add(size, data int64) {
	if size < patchLeast {
		w.Files++
		return
	}
	w.Bytes += data
	w.Largest = max(w.Largest, data)
}
