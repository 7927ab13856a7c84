package idletimeout

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// mostSeries bounds the result of a query. A result of more is not read, because a part of it could be missing.
const mostSeries = 100

// above reports whether a value of the result is above zero (Prometheus HTTP API, instant queries). Its errors quote nothing of the
// answer but the status code.
func above(code int, body []byte) (bool, error) {
	var answer struct {
		Status   string
		Warnings []json.RawMessage
		Data     struct {
			ResultType string
			Result     json.RawMessage
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil || code != 200 || answer.Status != "success" {
		return false, fmt.Errorf("prometheus answers %d, and no result; try the query there", code)
	}
	if len(answer.Warnings) > 0 { // a part of the result may be missing
		return false, errors.New("prometheus warns about the result; try the query there")
	}
	var samples []struct{ Value sample }
	var err error
	switch answer.Data.ResultType {
	case "vector":
		err = json.Unmarshal(answer.Data.Result, &samples)
	case "scalar":
		samples = make([]struct{ Value sample }, 1)
		err = json.Unmarshal(answer.Data.Result, &samples[0].Value)
	default:
		return false, errors.New("prometheus answers with neither a vector nor a scalar; change the query")
	}
	switch {
	case err != nil:
		return false, errors.New("prometheus answers with a result that cannot be read; try the query there")
	case len(samples) == 0:
		return false, errors.New("prometheus has no result for the query")
	case len(samples) > mostSeries:
		return false, fmt.Errorf("prometheus has more than %d series for the query; aggregate them, as with sum() or max()", mostSeries)
	}
	active := false
	for _, s := range samples {
		value, err := s.Value.float()
		if err != nil || value != value { // not a number
			return false, errors.New("prometheus answers with a value that is no number; change the query")
		}
		active = active || value > 0
	}
	return active, nil
}

// sample is a pair of a time and a value in words.
type sample [2]any

func (s sample) float() (float64, error) {
	text, _ := s[1].(string)
	return strconv.ParseFloat(text, 64)
}

// stateEstablished is TCP_ESTABLISHED of the kernel's include/net/tcp_states.h.
const stateEstablished = "01"

// established counts the connections to the local port in the kernel's tables (proc_net_tcp(5)), but those from the pod itself, as
// a health check over the loopback, and those from peers.
func established(table string, port int, peers map[string]bool) (int, error) {
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
			return 0, fmt.Errorf("line %.200q is not of the kernel's table", strings.TrimSpace(line))
		}
		if fields[3] == stateEstablished && int(number) == port && address != remote && !isPeer(remote, peers) {
			n++
		}
	}
	if !seen {
		return 0, errors.New("the pod has no table of connections")
	}
	return n, nil
}

// isPeer reports whether the address of the kernel's table is a peer's. One that cannot be read is not.
func isPeer(text string, peers map[string]bool) bool {
	address, ok := kernelAddress(text)
	return ok && peers[address]
}

// mapped begins an IPv6 address that stands for one of IPv4.
const mapped = "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff"

// kernelAddress returns the bytes of an address that the kernel prints: words of four bytes in hexadecimal, each in the byte order of
// the machine, which is little-endian where Kubernetes is common. On another machine no address is a peer's, and every connection
// counts.
func kernelAddress(text string) (string, bool) {
	bytes, err := hex.DecodeString(text)
	if err != nil || len(bytes) != 4 && len(bytes) != 16 {
		return "", false
	}
	for word := range slices.Chunk(bytes, 4) {
		slices.Reverse(word)
	}
	return strings.TrimPrefix(string(bytes), mapped), true
}
