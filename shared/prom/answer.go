package prom

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
)

// Sample is one series of an answer with its value.
type Sample struct {
	// Labels is nil for a scalar.
	Labels map[string]string
	Value  float64
	// At is the time of the value.
	At time.Time
}

// Read returns the samples of an answer to an instant query. It returns an error for more than that number of series. Its errors quote only
// the status code, because an error message of Prometheus can contain series of other tenants.
func Read(code int, body []byte, series int) ([]Sample, error) {
	var answer struct {
		Status   string
		Warnings []json.RawMessage
		Data     struct {
			ResultType string
			Result     json.RawMessage
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil || code != 200 || answer.Status != "success" {
		return nil, fmt.Errorf("prometheus answers %d, and no result; try the query there", code)
	}
	if len(answer.Warnings) > 0 { // part of the result may be missing
		return nil, errors.New("prometheus warns about the result; try the query there")
	}
	var rows []row
	var err error
	switch answer.Data.ResultType {
	case "vector":
		rows, err = readRows(answer.Data.Result, series+1)
	case "scalar":
		rows = make([]row, 1)
		err = json.Unmarshal(answer.Data.Result, &rows[0].Value)
	default:
		return nil, errors.New("prometheus answers with neither a vector nor a scalar; change the query")
	}
	switch {
	case err != nil:
		return nil, errors.New("prometheus answers with a result that cannot be read; try the query there")
	case len(rows) == 0:
		return nil, errors.New("prometheus has no result for the query")
	case len(rows) > series:
		return nil, fmt.Errorf("prometheus has more than %d series for the query; aggregate them, as with sum() or max()", series)
	}
	samples := make([]Sample, len(rows))
	for i, row := range rows {
		if samples[i], err = row.sample(); err != nil {
			return nil, err
		}
	}
	return samples, nil
}

// readRows returns at most that many elements of the list. An element of five bytes takes many times as much when it is decoded.
func readRows(list []byte, most int) ([]row, error) {
	d := json.NewDecoder(bytes.NewReader(list))
	switch start, err := d.Token(); {
	case err != nil:
		return nil, err
	case start == nil:
		return nil, nil
	case start != json.Delim('['):
		return nil, fmt.Errorf("%v instead of a list", start)
	}
	var rows []row
	for d.More() && len(rows) < most {
		r := row{}
		if err := d.Decode(&r); err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// row is a sample in JSON. Its value is a pair: the time as a number, and the value as a string.
type row struct {
	Metric map[string]string
	Value  [2]any
}

// sample returns the row as a Sample.
func (r row) sample() (Sample, error) {
	text, _ := r.Value[1].(string)
	value, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(value) {
		return Sample{}, errors.New("prometheus answers with a value that is no number; change the query")
	}
	seconds, _ := r.Value[0].(float64)
	return Sample{Labels: r.Metric, Value: value, At: time.UnixMilli(int64(seconds * 1000))}, nil
}
