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
	// SignalAnnotation tells the mover that the member has stopped, and which hold keeps it stopped. The mover then makes its final pass.
	SignalAnnotation = "drydock.dev/final-pass"

	// LeaseAnnotation keeps the mover running while it waits: a text that changes with each renewal, for example a time.
	LeaseAnnotation = "drydock.dev/mover-lease"
)

// Signal says which hold a final pass belongs to. The report of the final pass repeats it.
type Signal struct {
	Hold    string `json:"hold"`    // UID of the held pod
	Attempt int    `json:"attempt"` // counts the holds of one pod
}

// signalLimit is the maximum size of a signal in bytes: it must fit into the report.
const signalLimit = 256

// Encode returns the value of SignalAnnotation.
func (s Signal) Encode() string {
	b, _ := json.Marshal(s) // impossible to fail with these types
	return string(b)
}

// ParseSignal parses the result of Encode.
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

// Instructions are the annotations that the functions have written for a waiting mover.
type Instructions struct {
	Signal *Signal // nil while the member runs
	Lease  string  // "" if there is none
}

// ParseInstructions parses the pod's annotations as the kubelet writes them to a downward API volume: one key="value"
// per line, the value quoted as in Go. It ignores all annotations except the mover's two. It returns the values that it
// can read, and an error for the others.
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
			problems = append(problems, fmt.Errorf("annotation %s is incomplete", key))
			continue
		}
		if key == LeaseAnnotation {
			in.Lease = value
			continue
		}
		s, err := ParseSignal(value)
		if err != nil {
			problems = append(problems, fmt.Errorf("annotation %s is not a signal: %w", key, err))
			continue
		}
		in.Signal = &s
	}
	return in, errors.Join(problems...)
}
