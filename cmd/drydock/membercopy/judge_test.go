//go:build linux

package membercopy

import (
	"testing"
	"time"
)

func TestJudge(t *testing.T) {
	const maxStop, settled = 60 * time.Second, 2 * time.Minute
	type pass struct{ at, forecast int } // seconds
	for name, c := range map[string]struct {
		passes []pass
		want   verdict
	}{
		"the first pass is short enough": {[]pass{{0, 60}}, converged},
		"the first pass is not":          {[]pass{{0, 61}}, repeatNow},
		"it falls":                       {[]pass{{0, 1000}, {600, 500}, {900, 300}}, repeatNow},
		"it fell below":                  {[]pass{{0, 1000}, {600, 500}, {900, 59}}, converged},
		"it fell hardly":                 {[]pass{{0, 1000}, {600, 950}}, repeatLater},
		"it did not fall twice, long after the first": {[]pass{{0, 1000}, {600, 950}, {1200, 940}}, notConverged},
		"it did not fall twice, but time may help":    {[]pass{{0, 1000}, {10, 1000}, {20, 1000}}, repeatLater},
		"it rises":                          {[]pass{{0, 100}, {100, 200}, {200, 300}}, notConverged},
		"it falls slowly, but it falls":     {[]pass{{0, 1000}, {100, 950}, {200, 890}}, repeatNow},
		"it rose and came back":             {[]pass{{0, 100}, {300, 500}, {600, 95}}, notConverged},
		"once is not enough":                {[]pass{{0, 1000}, {600, 100}, {1200, 100}}, repeatLater},
		"the clock begins at the best pass": {[]pass{{0, 1000}, {600, 100}, {610, 100}, {620, 100}, {700, 100}}, repeatLater},
		"two minutes after the best pass":   {[]pass{{0, 1000}, {600, 100}, {610, 100}, {620, 100}, {721, 100}}, notConverged},
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

func TestLeaseIsLostByTheMoversOwnClock(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	type reading struct {
		at    int
		value string
		lost  bool
	}
	for name, readings := range map[string][]reading{
		"never any":                          {{0, "", false}, {119, "", false}, {120, "", true}},
		"renewed":                            {{0, "a", false}, {100, "b", false}, {219, "b", false}, {220, "b", true}},
		"the value may go back":              {{0, "b", false}, {100, "a", false}, {200, "b", false}, {319, "b", false}},
		"a file that is gone renews nothing": {{0, "a", false}, {60, "", false}, {90, "a", false}, {119, "a", false}, {120, "a", true}},
		"a time far ahead buys nothing":      {{0, "2099-01-01", false}, {120, "2099-01-01", true}},
	} {
		l := lease{last: start, length: 2 * time.Minute}
		for _, r := range readings {
			if got := l.isLost(at(r.at), r.value); got != r.lost {
				t.Errorf("%s, after %d s: %v", name, r.at, got)
			}
		}
	}
}
