package idletimeout

import (
	"time"

	"drydock.dev/shared/events"
)

// Signal is the information that an event carries besides the name of a set. Type is activity, wake, sleep, retry, or empty.
type Signal struct {
	Type string
	At   time.Time
}

// reportsUse reports whether the event says that the set is in use, or is about to be used.
func (s Signal) reportsUse() bool { return s.Type == events.Activity || s.Type == events.Wake }

// reportsCurrentUse reports whether the event says so and is recent.
func (s Signal) reportsCurrentUse(now time.Time) bool {
	return s.reportsUse() && now.Sub(s.At) <= events.Fresh
}

// sleepRequestedAt returns when the event requested a sleep, or the zero time.
func (s Signal) sleepRequestedAt() time.Time {
	if s.Type == events.Sleep {
		return s.At
	}
	return time.Time{}
}
