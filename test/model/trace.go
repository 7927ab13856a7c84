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

// Trace is the history of a resize on a cluster. Begin is the first projection. Changes are the later changes of single objects, as the
// API server ordered them.
type Trace struct {
	Begin   Projection
	Changes []Change
}

// Change is the new projection of an object after a write. State is empty if the object is gone.
type Change struct{ Object, State string }

const gone = "(gone)"

func (c Change) String() string {
	if c.State == "" {
		return c.Object + ": " + gone
	}
	return c.Object + ": " + c.State
}

// WriteTo writes the trace as text: a line for each initial object, an empty line, then a line for each change.
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

// ReadTrace reads the format of WriteTo.
func ReadTrace(from io.Reader) (Trace, error) {
	t, began := Trace{Begin: Projection{}}, false
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		if lines.Text() == "" {
			began = true
			continue
		}
		o, state, found := strings.Cut(lines.Text(), ": ")
		if !found {
			return t, fmt.Errorf("line %q is not a change of an object", lines.Text())
		}
		if state == gone {
			state = ""
		}
		if began {
			t.Changes = append(t.Changes, Change{o, state})
		} else {
			t.Begin[o] = state
		}
	}
	return t, lines.Err()
}

// Replay searches for a run of the model that makes the changes of the trace in the same order. Between two changes, the model may take
// any steps that do not change the projection. The only allowed fault is the recording's Act. Replay stops with an error if it has visited
// more than bound states. It returns the steps of the run as text. If there is no such run, it returns the steps up to the first
// impossible change, and an error that names this change.
func Replay(recording Recording, t Trace, bound int) (story []string, err error) {
	begin := recording.World()
	begin.countsReady = true
	operation := begin.record().Operation
	if state := begin.projection(operation); !maps.Equal(state, t.Begin) {
		return nil, fmt.Errorf("the scenario and the trace begin differently:\n%s", difference(state, t.Begin))
	}
	r := &replay{trace: t, act: recording.Act, operation: operation, states: make([]Projection, len(t.Changes)+1),
		known: map[searchState]bool{}, bound: bound}
	r.states[0] = t.Begin
	for i, c := range t.Changes {
		r.states[i+1] = r.states[i].after(c)
	}
	return r.search(begin)
}

// after returns a copy of the projection with the change.
func (p Projection) after(c Change) Projection {
	next := maps.Clone(p)
	if delete(next, c.Object); c.State != "" {
		next[c.Object] = c.State
	}
	return next
}

// difference lists the objects that differ between the projections, or returns empty.
func difference(model, trace Projection) string {
	var lines []string
	for _, o := range slices.Sorted(maps.Keys(model)) {
		if trace[o] != model[o] {
			lines = append(lines, fmt.Sprintf("model %s\ntrace %s", Change{o, model[o]}, Change{o, trace[o]}))
		}
	}
	for _, o := range slices.Sorted(maps.Keys(trace)) {
		if _, both := model[o]; !both {
			lines = append(lines, fmt.Sprintf("trace %s", Change{o, trace[o]}))
		}
	}
	return strings.Join(lines, "\n")
}

// searchState is a visited state: the identity of the model's state, and the number of matched changes.
type searchState struct {
	state   [16]byte
	matched int
}

// replay is a depth-first search for a matching run.
type replay struct {
	trace     Trace
	operation string
	act       string
	states    []Projection // expected projections, by the number of matched changes
	known     map[searchState]bool
	bound     int
	furthest  *pathStep
}

// pathStep is a step of a path, linked to the previous step. world is the state after the step. matched is the number of changes that
// the path has made so far.
type pathStep struct {
	previous *pathStep
	world    *World
	step     string
	matched  int
}

func (v *pathStep) story() []string {
	var story []string
	for ; v.previous != nil; v = v.previous {
		story = append(story, fmt.Sprintf("%3d %s", v.matched, v.step))
	}
	slices.Reverse(story)
	return story
}

func (r *replay) search(begin *World) ([]string, error) {
	stack := []*pathStep{{world: begin}}
	for len(stack) > 0 {
		v := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if r.furthest == nil || v.matched > r.furthest.matched {
			r.furthest = v
		}
		if v.matched == len(r.trace.Changes) {
			return v.story(), nil
		}
		if len(r.known) > r.bound {
			return v.story(), fmt.Errorf("the replay found no run within %d states: %w", r.bound, r.firstImpossible())
		}
		stack = append(stack, r.next(v)...)
	}
	return r.furthest.story(), r.firstImpossible()
}

// next returns the new steps that can continue a path. Steps that change the projection come last, so that the search takes them first.
func (r *replay) next(v *pathStep) []*pathStep {
	var hidden, visible []*pathStep
	for _, step := range slices.Backward(v.world.next()) {
		if step.Fault && step.What != r.act {
			continue
		}
		next := &pathStep{previous: v, world: v.world.after(step), step: step.String(), matched: v.matched}
		switch state := next.world.projection(r.operation); {
		case maps.Equal(state, r.states[v.matched+1]):
			next.matched++
			visible = r.add(visible, next)
		case maps.Equal(state, r.states[v.matched]):
			hidden = r.add(hidden, next)
		}
	}
	return append(hidden, visible...)
}

// add appends the step, unless its state was visited before.
func (r *replay) add(steps []*pathStep, next *pathStep) []*pathStep {
	state := searchState{next.world.identity(), next.matched}
	if r.known[state] {
		return steps
	}
	r.known[state] = true
	return append(steps, next)
}

// firstImpossible returns an error that names the first change that no run could make, and lists the steps that were possible instead.
func (r *replay) firstImpossible() error {
	v := r.furthest
	text := fmt.Sprintf("change %d is not possible in the model: %s\nThe model could have:", v.matched+1, r.trace.Changes[v.matched])
	for _, step := range v.world.steps() {
		text += "\n  " + step.String() + "\n" + difference(v.world.after(step).projection(r.operation), r.states[v.matched])
	}
	return fmt.Errorf("%s", text)
}

// ReplayBound is the maximum number of states that a replay visits.
const ReplayBound = 300_000

// Recording is a resize whose trace is recorded. If Act is set, a user does it while the member with the lowest ordinal is in Phase. Act
// is the text of the model's step for the same action.
type Recording struct {
	Scenario
	Phase api.MemberPhase
	Act   string
}

// The actions of users in recordings.
const (
	RemovesHold    = "removes finalizer " + api.HoldFinalizer + " from " + setName + "-0"
	DeletesByForce = "deletes pod " + setName + "-0 by force"
	ScalesDown     = "scales down by one"
)

// Recordings returns all recordings. The keys are the names of their trace files, without the suffix.
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
		"hold-taken-off":              {disturbed, api.MemberFinalPass, RemovesHold},
		"deleted-by-force":            {disturbed, api.MemberStopping, DeletesByForce},
		"scaled-down":                 {scaled, api.MemberFinalPass, ScalesDown},
	}
}
