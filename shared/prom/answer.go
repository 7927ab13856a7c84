package prom

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
)

// Sample is a series of the answer with its value.
type Sample struct {
	// Labels are nil in a scalar.
	Labels map[string]string
	Value  float64
	// At is the time that the value is for.
	At time.Time
}

// Read returns the samples of an answer to an instant query. Its errors quote nothing of the answer but the status code: an error message of
// Prometheus can quote series of other tenants.
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
	if len(answer.Warnings) > 0 { // a part of the result may be missing
		return nil, errors.New("prometheus warns about the result; try the query there")
	}
	var rows []row
	var err error
	switch answer.Data.ResultType {
	case "vector":
		err = json.Unmarshal(answer.Data.Result, &rows)
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

// row is a sample as JSON has it: the value is a pair of a time and a number in words.
type row struct {
	Metric map[string]string
	Value  [2]any
}

func (r row) sample() (Sample, error) {
	text, _ := r.Value[1].(string)
	value, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(value) {
		return Sample{}, errors.New("prometheus answers with a value that is no number; change the query")
	}
	seconds, _ := r.Value[0].(float64)
	return Sample{Labels: r.Metric, Value: value, At: time.UnixMilli(int64(seconds * 1000))}, nil
}
