//go:build linux

package membercopy

import "time"

// sample is the outcome of one first pass.
type sample struct {
	began    time.Time
	forecast time.Duration
}

// verdict says what follows from the passes so far.
type verdict int

const (
	converged    verdict = iota // the forecast is short enough
	repeatNow                   // the forecast falls: make another pass now
	repeatLater                 // the forecast did not fall: make another pass after a pause
	notConverged                // the forecast has not fallen for a long time
)

const (
	fallFactor = 0.9 // a forecast has fallen if it is below this fraction of the lowest earlier one
	idlePasses = 2   // passes without a fall that lead to the verdict notConvergedReport
)

// assess returns the verdict on all passes. There is at least one pass. A file counts as unchanged only after it was
// left alone for the time settled, so a forecast may fall merely because time passes. The verdict waits for that.
func assess(samples []sample, maxStop, settled time.Duration) verdict {
	last := samples[len(samples)-1]
	if last.forecast <= maxStop {
		return converged
	}
	best := 0
	for i := range samples {
		if float64(samples[i].forecast) < fallFactor*float64(samples[best].forecast) {
			best = i
		}
	}
	switch without := len(samples) - 1 - best; {
	case without == 0:
		return repeatNow
	case without >= idlePasses && last.began.Sub(samples[best].began) > settled:
		return notConverged
	}
	return repeatLater
}
