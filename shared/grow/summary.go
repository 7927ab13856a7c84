package grow

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

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
