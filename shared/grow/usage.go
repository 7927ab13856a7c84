package grow

import (
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Usage is the usage of a volume with a file system, as a kubelet has measured it.
type Usage struct {
	// Capacity, Used and Free are bytes. Free is what a process without privileges may write. Used is 0 if the source does not report it.
	Capacity, Used, Free int64
	// Inodes are 0 where the file system has no fixed number of them.
	Inodes, InodesFree int64
	// At is when it was measured.
	At time.Time
}

// oldest is how old a figure may be. Kubelets measure volumes each minute, and Prometheus forgets a series after five.
const oldest = 10 * time.Minute

// ahead is how far a clock of a node may be ahead.
const ahead = 2 * time.Minute

// Problem returns why the figures are not reliable for a volume of that capacity; "" if they are. The text contains no figures, so it stays
// the same while they change, and makes one Event.
func (u Usage) Problem(volume resource.Quantity, now time.Time) string {
	has := volume.Value()
	switch {
	case u.Capacity <= 0 || u.Free < 0 || u.Free > u.Capacity || u.Inodes < 0 || u.InodesFree < 0 || u.InodesFree > u.Inodes:
		return "its figures contradict each other"
	case now.Sub(u.At) > oldest || u.At.Sub(now) > ahead:
		return "its figures are too old, or from the future"
	case has <= 0:
		return "the claim does not say how large its volume is"
	case u.Capacity/11 > has/10:
		return "its file system is larger than its volume, so that it would not grow with it"
	case u.Capacity < has/2:
		return "its file system is much smaller than its volume, so that it has not grown with it"
	}
	return ""
}

// Join merges two reports about the same volume, as by two pods or two nodes. It reports false if they contradict each other. The larger free
// amounts count, so a volume does not grow if one report says that it has enough.
func (u Usage) Join(other Usage) (Usage, bool) {
	if u.Capacity != other.Capacity || u.Inodes != other.Inodes {
		return Usage{}, false
	}
	u.Used, u.Free, u.InodesFree = max(u.Used, other.Used), max(u.Free, other.Free), max(u.InodesFree, other.InodesFree)
	if other.At.Before(u.At) {
		u.At = other.At
	}
	return u, true
}

// Add puts a report about the claim into the map. After reports that contradict each other the claim stays unknown.
func Add(into map[string]Usage, claim string, u Usage) {
	known, twice := into[claim]
	if !twice {
		into[claim] = u
		return
	}
	joined, ok := known.Join(u)
	if !ok {
		joined = Usage{} // has a Problem, and no report joins it
	}
	into[claim] = joined
}
