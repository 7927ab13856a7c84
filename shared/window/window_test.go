package window

import (
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drydock.dev/test/golden"
)

// same compares windows. Two zones are equal if they have the same name.
var same = cmp.Options{cmp.AllowUnexported(Window{}), cmp.Comparer(func(a, b *time.Location) bool { return a.String() == b.String() })}

func TestInvalidWindowsAreExplained(t *testing.T) {
	mistakes := map[string]string{
		"nothing":                   "",
		"a semicolon too many":      "Mon 08:00-18:00;",
		"no hours":                  "Mon",
		"too many words":            "Mon 08:00-18:00 Europe/Berlin summer",
		"no day":                    "Monday 08:00-18:00",
		"half of a range of days":   "Mon- 08:00-18:00",
		"days with a blank":         "Mon, Tue 08:00-18:00",
		"no range of hours":         "Mon 08:00",
		"an hour of one digit":      "Mon 8:00-18:00",
		"no minutes":                "Mon 08-18",
		"an hour above 24":          "Mon 08:00-25:00",
		"a minute above 59":         "Mon 08:60-18:00",
		"from the end of the day":   "Mon 24:00-02:00",
		"a time with am and pm":     "Mon 08:00am-06:00pm",
		"an unknown zone":           "Mon 08:00-18:00 Mars/Olympus",
		"the machine's own zone":    "Mon 08:00-18:00 Local",
		"a zone outside the folder": "Mon 08:00-18:00 ../../etc/passwd",
		"a zone by its path":        "Mon 08:00-18:00 /usr/share/zoneinfo/UTC",
		"very many windows":         strings.Repeat("Mon 08:00-18:00;", maxWindows) + "Mon 08:00-18:00",
	}
	file := golden.Open(t)
	for _, name := range slices.Sorted(maps.Keys(mistakes)) {
		t.Run(name, func(t *testing.T) {
			windows, err := Parse(mistakes[name])
			if err == nil || windows != nil {
				t.Fatalf("%v, %v", windows, err)
			}
			file.Entry(t, name, err.Error())
		})
	}
}

// TestWindows includes daylight saving time. The 1st of March 2026 is a Sunday. In Berlin the clock goes forward at 2 on the 29th of
// March, and back at 3 on the 25th of October.
func TestWindows(t *testing.T) {
	for name, row := range map[string]struct {
		window string
		// want lists when the windows open (+) and close (-), in UTC, between from and to.
		from, to string
		want     []string
	}{
		"office hours": {"Mon-Fri 08:00-18:00", "2026-03-06T00:00", "2026-03-09T23:59",
			[]string{"+06T08:00", "-06T18:00", "+09T08:00", "-09T18:00"}},
		"days by name": {"Sat,Mon 10:00-12:00", "2026-03-06T00:00", "2026-03-09T23:59",
			[]string{"+07T10:00", "-07T12:00", "+09T10:00", "-09T12:00"}},
		"days in any case": {"SAT,mon 10:00-12:00", "2026-03-07T00:00", "2026-03-09T11:00",
			[]string{"+07T10:00", "-07T12:00", "+09T10:00"}},
		"a range of days over the weekend": {"Fri-Mon 10:00-12:00", "2026-03-05T00:00", "2026-03-10T23:59",
			[]string{"+06T10:00", "-06T12:00", "+07T10:00", "-07T12:00", "+08T10:00", "-08T12:00", "+09T10:00", "-09T12:00"}},
		"over midnight, of the first day":   {"Fri 22:00-02:00", "2026-03-05T00:00", "2026-03-08T23:59", []string{"+06T22:00", "-07T02:00"}},
		"over midnight, into Sunday":        {"Sat 22:00-02:00", "2026-02-28T00:00", "2026-03-02T23:59", []string{"+28T22:00", "-01T02:00"}},
		"until midnight":                    {"Fri 22:00-24:00", "2026-03-06T00:00", "2026-03-08T00:00", []string{"+06T22:00", "-07T00:00"}},
		"until the next day begins":         {"Fri 22:00-00:00", "2026-03-06T00:00", "2026-03-08T00:00", []string{"+06T22:00", "-07T00:00"}},
		"the same hour is a whole day":      {"Fri 08:00-08:00", "2026-03-05T00:00", "2026-03-08T00:00", []string{"+06T08:00", "-07T08:00"}},
		"always":                            {"Daily 00:00-24:00", "2026-03-01T00:00", "2026-03-08T00:00", []string{"+01T00:00"}},
		"always, from midnight to midnight": {"Daily 00:00-00:00", "2026-03-01T00:00", "2026-03-08T00:00", []string{"+01T00:00"}},
		"two windows that meet": {"Mon 08:00-12:00; Mon 12:00-14:00", "2026-03-02T00:00", "2026-03-02T23:59",
			[]string{"+02T08:00", "-02T14:00"}},
		"two windows, one in the other": {"Mon 08:00-12:00;Mon 09:00-10:00", "2026-03-02T00:00", "2026-03-02T23:59",
			[]string{"+02T08:00", "-02T12:00"}},

		"by the clock of Berlin, in winter": {"Daily 08:00-18:00 Europe/Berlin", "2026-03-02T00:00", "2026-03-02T23:59",
			[]string{"+02T07:00", "-02T17:00"}},
		"by the clock of Berlin, in summer": {"Daily 08:00-18:00 Europe/Berlin", "2026-07-02T00:00", "2026-07-02T23:59",
			[]string{"+02T06:00", "-02T16:00"}},
		"a zone of half hours": {"Mon 08:00-18:00 Asia/Kolkata", "2026-03-01T00:00", "2026-03-03T00:00",
			[]string{"+02T02:30", "-02T12:30"}},
		"a day that differs from the day in UTC": {"Mon 00:00-08:00 Pacific/Auckland", "2026-03-01T00:00", "2026-03-03T00:00",
			[]string{"+01T11:00", "-01T19:00"}},
		"an hour that daylight saving time skips": {"Sun 02:00-03:00 Europe/Berlin", "2026-03-28T12:00", "2026-03-29T12:00", nil},
		"a window that begins in the skipped hour": {"Sun 02:30-04:00 Europe/Berlin", "2026-03-28T12:00", "2026-03-29T12:00",
			[]string{"+29T01:00", "-29T02:00"}},
		"a window that ends in the skipped hour": {"Sun 01:00-02:30 Europe/Berlin", "2026-03-28T12:00", "2026-03-29T12:00",
			[]string{"+29T00:00", "-29T01:00"}},
		"a night of seven hours": {"Sat 22:00-06:00 Europe/Berlin", "2026-03-28T12:00", "2026-03-29T12:00",
			[]string{"+28T21:00", "-29T04:00"}},
		"an hour that daylight saving time repeats": {"Sun 02:00-03:00 Europe/Berlin", "2026-10-24T12:00", "2026-10-25T12:00",
			[]string{"+25T00:00", "-25T02:00"}},
		"half of a repeated hour": {"Sun 02:30-03:00 Europe/Berlin", "2026-10-24T12:00", "2026-10-25T12:00",
			[]string{"+25T00:30", "-25T01:00", "+25T01:30", "-25T02:00"}},
		"a night of nine hours": {"Sat 22:00-06:00 Europe/Berlin", "2026-10-24T12:00", "2026-10-25T12:00",
			[]string{"+24T20:00", "-25T05:00"}},
	} {
		t.Run(name, func(t *testing.T) {
			windows, err := Parse(row.window)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			open := false
			for now := moment(t, row.from); !now.After(moment(t, row.to)); now = now.Add(time.Minute) {
				isOpen := slices.ContainsFunc(windows, func(w Window) bool { return w.Open(now.Add(59 * time.Second)) })
				switch {
				case isOpen && !open:
					got = append(got, "+"+now.Format("02T15:04"))
				case !isOpen && open:
					got = append(got, "-"+now.Format("02T15:04"))
				}
				open = isOpen
			}
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func moment(t testing.TB, text string) time.Time {
	t.Helper()
	at, err := time.Parse("2006-01-02T15:04", text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// TestZonesDoNotDependOnSystem: the images contain no file but the program.
func TestZonesDoNotDependOnSystem(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(strings.Fields(string(out)), "time/tzdata") {
		t.Error("package idle does not link time/tzdata, so in an image no zone but UTC is known")
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"", ";", "Mon-Fri 08:00-18:00 Europe/Berlin; Sat,Sun 10:00-12:00", "Fri 22:00-02:00", "Daily 00:00-24:00",
		"daily 24:00-00:00",
		"Sun-Sat 00:00-00:00 Local", "Mon 08:00-18:00 ../x", "Mon,,Tue 1:00-2:00", "Mon-Tue-Wed 01:00-02:00",
		"\xff \x00-\x00", "Sat-Fri 23:59-23:58 America/St_Johns"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		windows, err := Parse(text)
		if err != nil {
			if windows != nil {
				t.Fatalf("%q is an error, and %v", text, windows)
			}
			return
		}
		if len(windows) == 0 || len(windows) > maxWindows {
			t.Fatalf("%q are %d windows", text, len(windows))
		}
		if again, err := Parse(strings.Join(strings.Fields(text), " ")); err != nil || !cmp.Equal(windows, again, same) {
			t.Errorf("%q with other blanks: %v, %v", text, again, err)
		}
		w := windows[0]
		w.zone = time.UTC // where a week has no hour too many
		days, length := 0, w.to-w.from
		for _, day := range w.days {
			if day {
				days++
			}
		}
		if length <= 0 {
			length += 24 * 60
		}
		open := 0
		for minute := range 7 * 24 * 60 {
			if w.Open(time.Date(2026, time.March, 1, 0, minute, 0, 0, time.UTC)) {
				open++
			}
		}
		if days == 0 || open != days*length {
			t.Errorf("%q is open for %d minutes of the week, want %d on each of %d days", text, open, length, days)
		}
	})
}

// TestZonesAreCached, and unknown names do not make the cache grow.
func TestZonesAreCached(t *testing.T) {
	c := zoneCache{zones: map[string]*time.Location{}}
	first, err := c.load("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	if second, err := c.load("Europe/Berlin"); err != nil || second != first {
		t.Errorf("%v, %v", second, err)
	}
	for i := range 10 {
		if _, err := c.load(fmt.Sprintf("Nowhere/%d", i)); err == nil {
			t.Error("an unknown zone is accepted")
		}
	}
	if _, err := c.load("Local"); err == nil || len(c.zones) != 1 {
		t.Errorf("%v, %d zones", err, len(c.zones))
	}
	for i := range 2 * maxZones {
		if len(c.zones) < maxZones {
			c.zones[fmt.Sprint(i)] = first
		}
	}
	if zone, err := c.load("Asia/Tokyo"); err != nil || zone.String() != "Asia/Tokyo" || len(c.zones) != maxZones {
		t.Errorf("%v, %v, %d zones", zone, err, len(c.zones))
	}
}
