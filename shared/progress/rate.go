package progress

import "time"

const (
	// rateWindow is how far back a rate looks, if it has two reports in that time.
	rateWindow = time.Minute
	// shortestSpan and smallestShare are the distance of two reports that show a rate: less shows the buffers, or one small file.
	shortestSpan  = 5 * time.Second
	smallestShare = 100 // one part in this many of the bytes
)

// Rates measures how fast members are copied, from successive documents. The zero value is ready for use.
type Rates struct {
	reports map[int][]report // by ordinal, the oldest first
}

// report is what a member's mover had copied at a time.
type report struct {
	at     time.Time
	copied int64
}

// Add adds the document, and stores in it the rate and the remaining time of each member that is being copied. The rate is that between
// two reports of the mover, because in between nothing is known.
func (r *Rates) Add(d *Document, now time.Time) {
	if r.reports == nil {
		r.reports = map[int][]report{}
	}
	for i := range d.Members {
		m := &d.Members[i]
		if m.ReportedAt == nil {
			delete(r.reports, m.Ordinal) // a pass has ended
			continue
		}
		all := withReport(r.reports[m.Ordinal], report{m.ReportedAt.Time, m.Copied})
		r.reports[m.Ordinal] = all
		if m.Rate = rateOf(all, m.Bytes); m.Rate > 0 && !m.SizeUnknown {
			m.SecondsLeft = secondsLeft(m, now)
		}
	}
}

// withReport returns the reports with the latest one. If fewer bytes are copied than before, the copy was begun again.
func withReport(all []report, latest report) []report {
	if last := len(all) - 1; last >= 0 {
		switch {
		case latest.copied < all[last].copied:
			all = nil
		case !latest.at.After(all[last].at):
			return all
		}
	}
	all = append(all, latest)
	for len(all) > 2 && latest.at.Sub(all[1].at) >= rateWindow {
		all = all[1:]
	}
	return all
}

// rateOf returns bytes per second, or 0 if the reports are too close together.
func rateOf(all []report, total int64) int64 {
	if len(all) < 2 {
		return 0
	}
	first, last := all[0], all[len(all)-1]
	span, copied := last.at.Sub(first.at), last.copied-first.copied
	if span < shortestSpan || copied <= 0 || copied < total/smallestShare {
		return 0
	}
	return int64(float64(copied) / span.Seconds())
}

// secondsLeft returns the seconds that are left of the copy. They count down from the latest report. It returns nil when they are over
// before the next report.
func secondsLeft(m *Member, now time.Time) *int64 {
	const longest = 365 * 24 * 60 * 60 // a larger number would overflow a duration
	left := min(float64(m.Bytes-m.Copied)/float64(m.Rate), longest) - max(0, now.Sub(m.ReportedAt.Time).Seconds())
	if left < 1 {
		return nil
	}
	seconds := int64(left)
	return &seconds
}

// LeftWords returns the remaining seconds of a copy in words, for example "2m" or "more than a day".
func LeftWords(seconds int64) string {
	left := time.Duration(seconds) * time.Second
	if left > 24*time.Hour {
		return "more than a day"
	}
	return Age(left)
}
