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
	again                       // the forecast falls: another pass, now
	later                       // the forecast did not fall: another pass after a pause
	notConverged                // it did not fall for long enough
)

const (
	fall       = 0.9 // a forecast has fallen if it is below this part of the lowest one before
	idlePasses = 2   // passes without a fall before the verdict notConverged
)

// judge looks at all passes; there is at least one. A file counts as unchanged only when it was left alone for the
// time settled, so a forecast may fall for no other reason than that time passes. That has to be waited for.
func judge(samples []sample, maxStop, settled time.Duration) verdict {
	last := samples[len(samples)-1]
	if last.forecast <= maxStop {
		return converged
	}
	best := 0
	for i := range samples {
		if float64(samples[i].forecast) < fall*float64(samples[best].forecast) {
			best = i
		}
	}
	switch without := len(samples) - 1 - best; {
	case without == 0:
		return again
	case without >= idlePasses && last.began.Sub(samples[best].began) > settled:
		return notConverged
	}
	return later
}
