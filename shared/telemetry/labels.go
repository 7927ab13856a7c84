package telemetry

import (
	"sync"
	"unicode/utf8"
)

// otherValue stands for every value of a label beyond its limit.
const otherValue = "other"

// maxLabel limits the length of a value, in bytes. Prometheus can reject a whole scrape for one long value.
const maxLabel = 200

// labelLimit limits the values of a label that other users choose, because each value makes series that never end.
type labelLimit struct {
	most  int // values, without otherValue
	mu    sync.Mutex
	known map[string]bool
}

func newLabelLimit(most int) *labelLimit { return &labelLimit{most: most, known: map[string]bool{}} }

// of returns the value, or otherValue if it is unsuitable or there are too many already. A value that is not UTF-8 would make every later
// scrape and export fail.
func (l *labelLimit) of(value string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.known[value]:
		return value
	case len(l.known) >= l.most || len(value) > maxLabel || !utf8.ValidString(value):
		return otherValue
	}
	l.known[value] = true
	return value
}
