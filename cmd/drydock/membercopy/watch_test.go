//go:build linux

package membercopy

import (
	"testing"
	"time"
)

// TestAssess covers every verdict on a sequence of forecasts.
func TestAssess(t *testing.T) {
	const maxStop, settled = 60 * time.Second, 2 * time.Minute
	type pass struct{ at, forecast int } // seconds
	for name, c := range map[string]struct {
		passes []pass
		want   verdict
	}{
		"the forecast of the first pass is short enough": {[]pass{{0, 60}}, converged},
		"the forecast of the first pass is too long":     {[]pass{{0, 61}}, repeatNow},
		"the forecast falls":                             {[]pass{{0, 1000}, {600, 500}, {900, 300}}, repeatNow},
		"the forecast fell below the limit":              {[]pass{{0, 1000}, {600, 500}, {900, 59}}, converged},
		"the forecast hardly fell":                       {[]pass{{0, 1000}, {600, 950}}, repeatLater},
		"no fall in two passes, long after the first":    {[]pass{{0, 1000}, {600, 950}, {1200, 940}}, notConverged},
		"no fall in two passes, but time may help":       {[]pass{{0, 1000}, {10, 1000}, {20, 1000}}, repeatLater},
		"the forecast rises":                             {[]pass{{0, 100}, {100, 200}, {200, 300}}, notConverged},
		"the forecast falls slowly":                      {[]pass{{0, 1000}, {100, 950}, {200, 890}}, repeatNow},
		"the forecast rose and fell again":               {[]pass{{0, 100}, {300, 500}, {600, 95}}, notConverged},
		"one pass without a fall is not enough":          {[]pass{{0, 1000}, {600, 100}, {1200, 100}}, repeatLater},
		"the clock begins at the best pass":              {[]pass{{0, 1000}, {600, 100}, {610, 100}, {620, 100}, {700, 100}}, repeatLater},
		"two minutes after the best pass":                {[]pass{{0, 1000}, {600, 100}, {610, 100}, {620, 100}, {721, 100}}, notConverged},
	} {
		var samples []sample
		for _, p := range c.passes {
			samples = append(samples, sample{time.Unix(int64(p.at), 0), time.Duration(p.forecast) * time.Second})
		}
		if got := assess(samples, maxStop, settled); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestLeaseIsLostByMoversClock: a lease is lost after two minutes without another value. A time in the value has no effect.
func TestLeaseIsLostByMoversClock(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	type reading struct {
		at    int
		value string
		lost  bool
	}
	for name, readings := range map[string][]reading{
		"no lease at all":                   {{0, "", false}, {119, "", false}, {120, "", true}},
		"renewed":                           {{0, "a", false}, {100, "b", false}, {219, "b", false}, {220, "b", true}},
		"a value returns to an earlier one": {{0, "b", false}, {100, "a", false}, {200, "b", false}, {319, "b", false}},
		"a missing file does not renew": {
			{0, "a", false}, {60, "", false}, {90, "a", false}, {119, "a", false}, {120, "a", true},
		},
		"a time in the future does not extend the lease": {{0, "2099-01-01", false}, {120, "2099-01-01", true}},
	} {
		l := lease{last: start, length: 2 * time.Minute}
		for _, r := range readings {
			if got := l.isLost(at(r.at), r.value); got != r.lost {
				t.Errorf("%s, after %d s: %v", name, r.at, got)
			}
		}
	}
}
