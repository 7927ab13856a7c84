//go:build linux

package mover

import "time"

// Cost is the time that one worker needs for files, as a pass has measured it.
type Cost struct {
	File    time.Duration // for a small file; 0 if it was not measured
	Rate    float64       // bytes per second of big files, read on both sides; 0 if it was not measured
	Workers float64       // average number of busy workers
}

// deletionCost is the time to delete one entry.
const deletionCost = 50 * time.Microsecond

func (c Cost) seconds(bytes int64) float64 { return float64(bytes) / c.Rate }

func inSeconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

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

// defaultCost is the cost on slow storage. It is used until a pass measures one: a pass that finds no change measures
// nothing.
var defaultCost = Cost{File: 20 * time.Millisecond, Rate: 50e6, Workers: 1}
