package idletimeout

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// above reports whether a value of the result is above zero (Prometheus HTTP API, instant queries).
func above(code int, body []byte) (bool, error) {
	var answer struct {
		Status, Error string
		Data          struct {
			ResultType string
			Result     json.RawMessage
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil || code != 200 || answer.Status != "success" {
		return false, fmt.Errorf("prometheus answers %d %q", code, answer.Error)
	}
	var samples []struct{ Value sample }
	switch answer.Data.ResultType {
	case "vector":
		if err := json.Unmarshal(answer.Data.Result, &samples); err != nil {
			return false, fmt.Errorf("prometheus answers with a vector that is none: %w", err)
		}
	case "scalar":
		samples = make([]struct{ Value sample }, 1)
		if err := json.Unmarshal(answer.Data.Result, &samples[0].Value); err != nil {
			return false, fmt.Errorf("prometheus answers with a scalar that is none: %w", err)
		}
	default:
		return false, fmt.Errorf("prometheus answers with a %q; ask for a vector or a scalar", answer.Data.ResultType)
	}
	if len(samples) == 0 {
		return false, errors.New("prometheus has no result for the query")
	}
	active := false
	for _, s := range samples {
		value, err := s.Value.float()
		if err != nil || value != value { // not a number
			return false, fmt.Errorf("prometheus answers with the value %q", s.Value)
		}
		active = active || value > 0
	}
	return active, nil
}

// sample is a pair of a time and a value in words.
type sample [2]any

func (s sample) float() (float64, error) {
	text, _ := s[1].(string)
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, fmt.Errorf("value %q: %w", text, err)
	}
	return value, nil
}

// stateEstablished is TCP_ESTABLISHED of the kernel's include/net/tcp_states.h.
const stateEstablished = "01"

// established counts the connections to the local port in the kernel's tables (proc_net_tcp(5)), but those from the pod
// itself: a health check over the loopback is no use of the set.
func established(table string, port int) (int, error) {
	n, seen := 0, false
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) < 4 {
			continue
		}
		if fields[0] == "sl" {
			seen = true
			continue
		}
		address, local, ok := strings.Cut(fields[1], ":")
		remote, _, okRemote := strings.Cut(fields[2], ":")
		number, err := strconv.ParseUint(local, 16, 16)
		if !ok || !okRemote || err != nil {
			return 0, fmt.Errorf("line %q is not of the kernel's table", strings.TrimSpace(line))
		}
		if fields[3] == stateEstablished && int(number) == port && address != remote {
			n++
		}
	}
	if !seen {
		return 0, errors.New("the pod has no table of connections")
	}
	return n, nil
}
