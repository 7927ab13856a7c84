package model

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"drydock.dev/shared/api"
)

// Trace is the course of a resize on a cluster: its first state, and each change of an object that a projection shows, in the order of the
// API server's writes.
type Trace struct {
	Begin   Projection
	Changes []Change
}

// Change is what can be seen of an object after a write; empty if it is gone.
type Change struct{ Object, Is string }

const gone = "(gone)"

func (c Change) String() string {
	if c.Is == "" {
		return c.Object + ": " + gone
	}
	return c.Object + ": " + c.Is
}

// WriteTo writes the trace as text: a line for each object of the beginning, an empty line, a line for each change.
func (t Trace) WriteTo(to io.Writer) (int64, error) {
	var text strings.Builder
	for _, o := range slices.Sorted(maps.Keys(t.Begin)) {
		fmt.Fprintln(&text, Change{o, t.Begin[o]})
	}
	fmt.Fprintln(&text)
	for _, c := range t.Changes {
		fmt.Fprintln(&text, c)
	}
	n, err := io.WriteString(to, text.String())
	return int64(n), err
}

// ReadTrace reads what WriteTo has written.
func ReadTrace(from io.Reader) (Trace, error) {
	t, began := Trace{Begin: Projection{}}, false
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		if lines.Text() == "" {
			began = true
			continue
		}
		o, is, found := strings.Cut(lines.Text(), ": ")
		if !found {
			return t, fmt.Errorf("no change of an object: %q", lines.Text())
		}
		if is == gone {
			is = ""
		}
		if began {
			t.Changes = append(t.Changes, Change{o, is})
		} else {
			t.Begin[o] = is
		}
	}
	return t, lines.Err()
}

// Recording is a resize of which a trace is recorded. With an act, a user does that, in the words of the model, when the member with the
// lowest ordinal is in the phase.
type Recording struct {
	Scenario
	Phase api.MemberPhase
	Act   string
}

// What users do in recordings.
const (
	TakesHoldOff   = "takes finalizer " + api.HoldFinalizer + " off " + setName + "-0"
	DeletesByForce = "deletes pod " + setName + "-0 by force"
	ScalesDown     = "scales down by one"
)

// Recordings are by the name of the file.
func Recordings() map[string]Recording {
	one := Scenario{Members: 1, Strategy: api.StrategyRolling, Parallel: true}
	disturbed, two := one, Scenario{Members: 2, Strategy: api.StrategyWhole, Parallel: true}
	disturbed.Faults = 1
	scaled := two
	scaled.Faults = 1
	return map[string]Recording{
		"one-member-rolling":          {Scenario: one},
		"two-members-rolling-ordered": {Scenario: Scenario{Members: 2, Strategy: api.StrategyRolling}},
		"two-members-whole":           {Scenario: two},
		"hold-taken-off":              {disturbed, api.MemberFinalPass, TakesHoldOff},
		"deleted-by-force":            {disturbed, api.MemberStopping, DeletesByForce},
		"scaled-down":                 {scaled, api.MemberFinalPass, ScalesDown},
	}
}
