package grow

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// summaryVolume is a volume in a kubelet's /stats/summary (kubernetes staging kubelet pkg/apis/stats/v1alpha1).
type summaryVolume struct {
	Claim *struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"pvcRef"`
	Time       time.Time `json:"time"`
	Capacity   *int64    `json:"capacityBytes"`
	Available  *int64    `json:"availableBytes"`
	Used       *int64    `json:"usedBytes"`
	Inodes     *int64    `json:"inodes"`
	InodesFree *int64    `json:"inodesFree"`
}

// ReadSummary adds the usage of the namespace's wanted claims from a kubelet's summary. It omits volumes without figures, such as raw block
// volumes. It holds one value of at most maxValue bytes at a time, because a hostile node may send any summary. After an error it has added
// nothing.
func ReadSummary(body io.Reader, namespace string, wanted func(claim string) bool, into map[string]Usage) error {
	found := map[string]Usage{}
	source := &valueReader{body: body}
	d := json.NewDecoder(source)
	source.position = d.InputOffset
	readVolume := func() error {
		v := summaryVolume{}
		if err := d.Decode(&v); err != nil {
			return err
		}
		if v.Claim == nil || v.Claim.Namespace != namespace || v.Capacity == nil || v.Available == nil || !wanted(v.Claim.Name) {
			return nil
		}
		u := Usage{Capacity: *v.Capacity, Free: *v.Available, MeasuredAt: v.Time}
		if v.Used != nil {
			u.Used = *v.Used
		}
		if v.Inodes != nil && v.InodesFree != nil {
			u.Inodes, u.InodesFree = *v.Inodes, *v.InodesFree
		}
		Add(found, v.Claim.Name, u)
		return nil
	}
	readPod := func() error {
		return eachValue(d, '{', "volume", func() error { return eachValue(d, '[', "", readVolume) })
	}
	err := eachValue(d, '{', "pods", func() error { return eachValue(d, '[', "", readPod) })
	if err == nil && d.More() {
		err = errors.New("there is text after the document")
	}
	if err != nil {
		return fmt.Errorf("reading the kubelet's summary: %w", err)
	}
	for claim, u := range found {
		Add(into, claim, u)
	}
	return nil
}

// maxValue limits a text, a number or a volume of a summary, in bytes. A volume has about 500.
const maxValue = 64 << 10

// valueReader returns an error when a value of the document is longer than maxValue, because a decoder holds a value until its end.
type valueReader struct {
	body     io.Reader
	read     int64
	position func() int64 // of the decoder: all before it has been decoded
}

func (r *valueReader) Read(p []byte) (int, error) {
	if r.read-r.position() > maxValue {
		return 0, fmt.Errorf("a value has more than %d bytes", maxValue)
	}
	n, err := r.body.Read(p)
	r.read += int64(n)
	return n, err
}

// eachValue calls read for each element of the list that comes next, or for the values of the key in the object that comes next. It skips
// the other values of the object. Null has none.
func eachValue(d *json.Decoder, open json.Delim, key string, read func() error) error {
	switch start, err := d.Token(); {
	case err != nil:
		return err
	case start == nil:
		return nil
	case start != open:
		return fmt.Errorf("%v instead of %v", start, open)
	}
	for d.More() {
		next := read
		if open == '{' {
			name, err := d.Token()
			if err != nil {
				return err
			}
			if name != key {
				next = func() error { return skip(d) }
			}
		}
		if err := next(); err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

// deepest limits the nesting of a skipped value.
const deepest = 100

// skip reads the next value and holds none of it.
func skip(d *json.Decoder) error {
	for depth := 0; ; {
		token, err := d.Token()
		if err != nil {
			return err
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
		if depth > deepest {
			return fmt.Errorf("a value has more than %d levels", deepest)
		}
	}
}
