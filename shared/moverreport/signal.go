package moverreport

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Annotations of a waiting mover's pod. The functions write them, the mover reads them.
const (
	// SignalAnnotation says that the member has stopped: a Signal, see Signal.Encode. The mover then makes its final pass.
	SignalAnnotation = "drydock.dev/final-pass"

	// LeaseAnnotation keeps the mover alive while it waits: a text that changes with each renewal, for example a time.
	LeaseAnnotation = "drydock.dev/mover-lease"
)

// Signal says which hold a final pass is made for. The report of the final pass repeats it.
type Signal struct {
	Hold    string `json:"hold"`    // UID of the held pod
	Attempt int    `json:"attempt"` // counts the holds of one pod
}

// signalLimit is the longest signal in bytes: the report has to have room for it.
const signalLimit = 256

// Encode returns the value of SignalAnnotation.
func (s Signal) Encode() string {
	b, _ := json.Marshal(s) // no value of these types fails
	return string(b)
}

// ParseSignal reads what Encode returns.
func ParseSignal(text string) (Signal, error) {
	if len(text) > signalLimit {
		return Signal{}, fmt.Errorf("it has %d bytes, at most %d are allowed", len(text), signalLimit)
	}
	var s Signal
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return Signal{}, err
	}
	if s.Hold == "" {
		return Signal{}, errors.New("it names no held pod")
	}
	return s, nil
}

// Instructions are what the functions have told a waiting mover.
type Instructions struct {
	Signal *Signal // nil: the member runs
	Lease  string  // "" if there is none
}

// ParseInstructions reads the pod's annotations as the kubelet writes them to a downward API volume: one key="value" on
// each line, the value quoted as in Go. It looks at the two annotations for movers only. It returns what could be read, and an
// error for what could not.
func ParseInstructions(annotations []byte) (Instructions, error) {
	var in Instructions
	var problems []error
	for line := range strings.Lines(string(annotations)) {
		key, quoted, found := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		if !found || key != SignalAnnotation && key != LeaseAnnotation {
			continue
		}
		value, err := strconv.Unquote(quoted)
		if err != nil {
			problems = append(problems, fmt.Errorf("annotation %s is not whole", key))
			continue
		}
		if key == LeaseAnnotation {
			in.Lease = value
			continue
		}
		s, err := ParseSignal(value)
		if err != nil {
			problems = append(problems, fmt.Errorf("annotation %s is no signal: %w", key, err))
			continue
		}
		in.Signal = &s
	}
	return in, errors.Join(problems...)
}
