package grow

import (
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Usage is the usage of a volume with a file system, measured by a kubelet.
type Usage struct {
	// Capacity, Used and Free are bytes. Free counts only space for processes without privileges. Used is 0 if the source does not report
	// it.
	Capacity, Used, Free int64
	// Inodes is 0 if the file system has no fixed number of inodes, or the source does not report it.
	Inodes, InodesFree int64
	// MeasuredAt is the time of the measurement.
	MeasuredAt time.Time
}

// MaxAge is the age of the oldest usable figures. Kubelets measure volumes each minute, and Prometheus drops a series after five.
const MaxAge = 10 * time.Minute

// maxClockSkew is how far the clock of a node may be ahead.
const maxClockSkew = 2 * time.Minute

// Problem returns why the figures are not reliable for a volume of that capacity; "" if they are. The text contains no figures, so that it
// stays the same and causes only one Event.
func (u Usage) Problem(volume resource.Quantity, now time.Time) string {
	size := volume.Value()
	switch {
	case u.Capacity <= 0 || u.Free < 0 || u.Free > u.Capacity || u.Inodes < 0 || u.InodesFree < 0 || u.InodesFree > u.Inodes:
		return "its figures contradict each other"
	case now.Sub(u.MeasuredAt) > MaxAge || u.MeasuredAt.Sub(now) > maxClockSkew:
		return "its figures are too old, or from the future"
	case size <= 0:
		return "its status has no capacity"
	case u.Capacity/11 > size/10:
		return "its file system is larger than its volume, so it would not grow with the volume"
	case u.Capacity < size/2:
		return "its file system is much smaller than its volume, so it has not grown with the volume"
	}
	return ""
}

// Join merges two reports on the same volume, for example from two pods or two nodes. It returns false if they contradict each other. The
// larger free amounts count: a volume does not grow if one report shows enough free space.
func (u Usage) Join(other Usage) (Usage, bool) {
	if u.Inodes == 0 { // not reported
		u.Inodes, u.InodesFree = other.Inodes, other.InodesFree
	}
	if u.Capacity != other.Capacity || other.Inodes != 0 && u.Inodes != other.Inodes {
		return Usage{}, false
	}
	u.Used, u.Free, u.InodesFree = max(u.Used, other.Used), max(u.Free, other.Free), max(u.InodesFree, other.InodesFree)
	if other.MeasuredAt.Before(u.MeasuredAt) {
		u.MeasuredAt = other.MeasuredAt
	}
	return u, true
}

// Add adds a report on the claim to the map. If the reports contradict each other, the usage of the claim becomes unknown and stays
// unknown.
func Add(into map[string]Usage, claim string, u Usage) {
	previous, reported := into[claim]
	if !reported {
		into[claim] = u
		return
	}
	joined, ok := previous.Join(u)
	if !ok {
		joined = Usage{} // has a Problem, and joins with no other report
	}
	into[claim] = joined
}
