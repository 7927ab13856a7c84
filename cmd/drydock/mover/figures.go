//go:build linux

package mover

import "time"

// Figures are the measurements of a first pass, and the work that it leaves to the final pass.
type Figures struct {
	Scan      time.Duration // of reading the source's tree
	Metadata  time.Duration // of comparing all entries on both sides, without contents
	Flush     time.Duration // of the target
	Copy      Cost          // of updating files of the target
	Check     Cost          // of verifying files
	Remaining Work
}

// Work is the amount of change: the files whose contents the final pass must read on both sides, and the entries it must
// delete. Files of at least bigFileMin are big, others are small.
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

// Forecast returns how long a final pass would take if it started now.
func (f Figures) Forecast() time.Duration {
	return f.Scan + f.Metadata + f.Flush + f.Contents()
}

// Contents returns the part of the forecast that depends on changes: reading and writing contents, and deleting.
func (f Figures) Contents() time.Duration {
	copying, checking := f.costs()
	return copying.timeFor(f.Remaining) + checking.timeFor(f.Remaining.toVerify()) + time.Duration(f.Remaining.Deletions)*deletionCost
}

// WithGapsFrom returns the figures with missing measurements taken from an earlier pass.
func (f Figures) WithGapsFrom(earlier Figures) Figures {
	f.Copy, f.Check = f.Copy.filledFrom(earlier.Copy), f.Check.filledFrom(earlier.Check)
	return f
}

// costs returns both costs. A missing one is taken from the other one, or else from defaultCost. Verification is at most
// as fast as this process can hash.
func (f Figures) costs() (copying, checking Cost) {
	copying = f.Copy.filledFrom(f.Check).filledFrom(defaultCost)
	checking = copying
	checking.Rate = min(checking.Rate, hashRate())
	return copying, f.Check.filledFrom(checking)
}

// add counts a file.
func (w *Work) add(size, data int64) {
	if size < bigFileMin {
		w.Files++
		return
	}
	w.Bytes += data
	w.Largest = max(w.Largest, data)
}

// timeFor returns how long the work takes. A single file is read by one worker, so the largest file is a lower bound.
func (c Cost) timeFor(w Work) time.Duration {
	busy := float64(w.Files)*c.File.Seconds() + c.seconds(w.Bytes)
	return inSeconds(max(busy/max(1, c.Workers), c.seconds(w.Largest)))
}
