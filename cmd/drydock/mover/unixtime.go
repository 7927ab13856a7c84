//go:build linux

package mover

import "time"

// unixTime is a time as inodes store it.
type unixTime struct{ sec, nsec int64 }

func (t unixTime) before(u unixTime) bool { return t.sec < u.sec || t.sec == u.sec && t.nsec < u.nsec }

func (t unixTime) add(d time.Duration) unixTime {
	if d == 0 {
		return t
	}
	nsec := t.nsec + int64(d%time.Second)
	return unixTime{t.sec + int64(d/time.Second) + nsec/int64(time.Second), nsec % int64(time.Second)}
}

func (m *meta) ctime() unixTime { return unixTime{m.ctimeSec, int64(m.ctimeNsec)} }

func (m *meta) mtime() unixTime { return unixTime{m.mtimeSec, int64(m.mtimeNsec)} }

func unixTimeOf(t time.Time) unixTime { return unixTime{t.Unix(), int64(t.Nanosecond())} }

func latest(a, b unixTime) unixTime {
	if a.before(b) {
		return b
	}
	return a
}
