package operation

import (
	"hash/fnv"
	"time"
)

// Due reports whether the sweep that reports the change checks something of this key, which is checked once in a period.
func (c Change) Due(key string, every time.Duration) bool {
	return Due(key, every, c.PreviousSweep, c.Now)
}

// Due reports whether the minute of the key has passed since the previous sweep. The key determines the minute within the period. This
// spreads many keys over the period and stores nothing. Ticks may be more than a minute apart (DRYDOCK_TICK), and a little early or late.
func Due(key string, every time.Duration, previousSweep, now time.Time) bool {
	period := int64(every / time.Minute)
	if period <= 1 {
		return true
	}
	h := fnv.New32a()
	h.Write([]byte(key)) // writing to a hash never fails
	last := minute(now)
	first := last
	if !previousSweep.IsZero() && minute(previousSweep) <= last { // a clock that was set back makes previousSweep later than now
		first = max(minute(previousSweep), last-period) + 1
	}
	for m := first; m <= last; m++ {
		if m%period == int64(h.Sum32())%period {
			return true
		}
	}
	return false
}

// minute returns the number of the nearest minute.
func minute(t time.Time) int64 { return t.Add(time.Minute/2).Unix() / 60 }
