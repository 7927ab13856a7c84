// Package window reads windows of the week: when a set is kept awake, and when a resize may stop members.
package window

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // the functions' image has no time zone files
)

// Window is a time of day on some days of the week, in a time zone.
type Window struct {
	days [7]bool // days when the window begins; index 0 is Sunday
	// from and to are minutes of the day in local time. If to <= from, the window ends on the next day.
	from, to int
	zone     *time.Location
}

const windowFormat = `write DAYS FROM-TO ZONE, windows separated by semicolons, as ` +
	`"Mon-Fri 08:00-18:00 Europe/Berlin; Sat,Sun 10:00-12:00"; without a zone it is UTC`

// maxWindows limits the windows of one annotation.
const maxWindows = 50

// Parse reads windows of the week:
//
//	Mon-Fri 08:00-18:00 Europe/Berlin    five days, by the clock of Berlin
//	Sat,Sun 10:00-12:00                  in UTC
//	Fri 22:00-02:00                      until Saturday morning
//	Daily 00:00-24:00                    always
func Parse(text string) ([]Window, error) {
	parts := strings.Split(text, ";")
	if len(parts) > maxWindows {
		return nil, fmt.Errorf("there are more than %d windows; remove some", maxWindows)
	}
	windows := make([]Window, len(parts))
	for i, part := range parts {
		var err error
		if windows[i], err = parseWindow(strings.Fields(part)); err != nil {
			return nil, fmt.Errorf("%w; %s", err, windowFormat)
		}
	}
	return windows, nil
}

func parseWindow(fields []string) (Window, error) {
	w := Window{zone: time.UTC}
	if len(fields) != 2 && len(fields) != 3 {
		return w, fmt.Errorf("%q is no window", strings.Join(fields, " "))
	}
	if err := w.parseDays(fields[0]); err != nil {
		return w, err
	}
	from, to, ok := strings.Cut(fields[1], "-")
	var fromOK, toOK bool
	w.from, fromOK = minute(from)
	w.to, toOK = minute(to)
	if !ok || !fromOK || !toOK || w.from == 24*60 {
		return w, fmt.Errorf("%q is not a range of hours", fields[1])
	}
	if len(fields) == 3 {
		zone, err := zones.load(fields[2])
		if err != nil {
			return w, err
		}
		w.zone = zone
	}
	return w, nil
}

var weekdays = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

func (w *Window) parseDays(text string) error {
	if strings.EqualFold(text, "daily") {
		text = "Sun-Sat"
	}
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(strings.ToLower(part), "-")
		if !isRange {
			last = first
		}
		from, to := slices.Index(weekdays, first), slices.Index(weekdays, last)
		if from < 0 || to < 0 {
			return fmt.Errorf("%q is not a day or a range of days", part)
		}
		for day := from; ; day = (day + 1) % 7 {
			w.days[day] = true
			if day == to {
				break
			}
		}
	}
	return nil
}

// minute returns the minute of the day. 24:00 is the end of the day.
func minute(text string) (int, bool) {
	if text == "24:00" {
		return 24 * 60, true
	}
	t, err := time.Parse("15:04", text)
	return t.Hour()*60 + t.Minute(), err == nil && len(text) == len("15:04")
}

// Open reports whether the time is in the window, by local time in its zone. If daylight saving time skips or repeats an hour, the
// window is shorter or longer by that hour.
func (w Window) Open(now time.Time) bool {
	local := now.In(w.zone)
	day, at := int(local.Weekday()), local.Hour()*60+local.Minute()
	if w.from < w.to {
		return w.days[day] && at >= w.from && at < w.to
	}
	return w.days[day] && at >= w.from || w.days[(day+6)%7] && at < w.to
}

// maxZones limits the cached zones. There are about six hundred names.
const maxZones = 1000

// zoneCache caches time zones. Loading one takes 20 microseconds, and a sweep needs the zones of every set.
type zoneCache struct {
	mu    sync.Mutex
	zones map[string]*time.Location
}

var zones = zoneCache{zones: map[string]*time.Location{}}

// load returns the zone with the IANA name. Unknown names are not cached, because users can write any number of them.
func (c *zoneCache) load(name string) (*time.Location, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if zone, ok := c.zones[name]; ok {
		return zone, nil
	}
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" { // the zone of the machine must not matter
		return nil, fmt.Errorf("time zone %q is unknown", name)
	}
	if len(c.zones) < maxZones {
		c.zones[name] = zone
	}
	return zone, nil
}
