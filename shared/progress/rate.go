package progress

import "time"

// rateWindow is how far back a rate looks. The record of a copy changes every few seconds only.
const rateWindow = 30 * time.Second

// Rates measures how fast members are copied, from successive documents. The zero value is ready for use.
type Rates struct {
	samples map[int][]sample // by ordinal, the oldest first
}

type sample struct {
	at     time.Time
	copied int64
}

// Add adds the document of that time, and stores the rate of each member that is being copied in the document.
func (r *Rates) Add(d *Document, now time.Time) {
	if r.samples == nil {
		r.samples = map[int][]sample{}
	}
	for i := range d.Members {
		m := &d.Members[i]
		all := r.samples[m.Ordinal]
		if last := len(all) - 1; last >= 0 && m.Copied < all[last].copied {
			all = nil // another pass has begun
		}
		if last := len(all) - 1; last < 0 || m.Copied > all[last].copied {
			all = append(all, sample{now, m.Copied})
		}
		for len(all) > 2 && now.Sub(all[1].at) > rateWindow {
			all = all[1:]
		}
		r.samples[m.Ordinal] = all
		m.Rate = rateOf(all, now)
	}
}

// rateOf returns bytes per second, or 0 if the samples show none.
func rateOf(samples []sample, now time.Time) int64 {
	if len(samples) < 2 {
		return 0
	}
	first, last := samples[0], samples[len(samples)-1]
	seconds := now.Sub(first.at).Seconds()
	if seconds <= 0 {
		return 0
	}
	return int64(float64(last.copied-first.copied) / seconds)
}
