//go:build linux

package membercopy

import "time"

// sample is the result of one first pass: when it began, and the forecast of the final pass after it.
type sample struct {
	began    time.Time
	forecast time.Duration
}

// verdict says whether the first passes have converged, and whether there is another one.
type verdict int

const (
	converged    verdict = iota // the forecast is at most the longest stop
	repeatNow                   // the forecast has fallen: make another pass now
	repeatLater                 // the forecast has not fallen: make another pass after a pause
	notConverged                // the forecast has not fallen for several passes: the copy fails
)

const (
	fallFactor = 0.9 // a forecast has fallen if it is below this fraction of the best earlier one
	idlePasses = 2   // the verdict notConverged needs this number of passes without a fall
)

// assess returns the verdict on the passes so far. There is at least one. A file counts as unchanged only if it was
// not written for the time settled, so the forecast may fall merely because time passes. So assess returns notConverged only
// if the latest pass began more than that time after the best one.
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
