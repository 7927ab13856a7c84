package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Replay looks for a run of the model in which the objects change as in the trace. Between two changes the model may take any steps that
// cannot be seen. Of faults and acts of users, it has that of the recording. It returns an error that names the first change which is not
// possible.
func Replay(recording Recording, t Trace, bound int) (story []string, err error) {
	begin := recording.World()
	operation := begin.record().Operation
	if is := begin.projection(operation); !maps.Equal(is, t.Begin) {
		return nil, fmt.Errorf("the scenario does not begin as the trace:\n%s", difference(is, t.Begin))
	}
	r := &replay{
		trace:     t,
		act:       recording.Act,
		operation: operation,
		states:    make([]Projection, len(t.Changes)+1),
		known:     map[place]bool{},
		bound:     bound,
	}
	r.states[0] = t.Begin
	for i, c := range t.Changes {
		r.states[i+1] = r.states[i].after(c)
	}
	return r.search(begin)
}

// after returns the projection with the change.
func (p Projection) after(c Change) Projection {
	next := maps.Clone(p)
	if delete(next, c.Object); c.Is != "" {
		next[c.Object] = c.Is
	}
	return next
}

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

// place is a state of the model, and how many changes have led to it.
type place struct {
	state [16]byte
	at    int
}

// replay is a search, depth first, for a run that fits.
type replay struct {
	trace     Trace
	operation string
	act       string
	states    []Projection // after so many changes
	known     map[place]bool
	bound     int
	furthest  *way
}

// way is how a place was reached.
type way struct {
	before *way
	world  *World
	step   string
	at     int
}

func (v *way) story() []string {
	var story []string
	for ; v.before != nil; v = v.before {
		story = append(story, fmt.Sprintf("%3d %s", v.at, v.step))
	}
	slices.Reverse(story)
	return story
}

func (r *replay) search(begin *World) ([]string, error) {
	stack := []*way{{world: begin}}
	for len(stack) > 0 {
		v := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if r.furthest == nil || v.at > r.furthest.at {
			r.furthest = v
		}
		if v.at == len(r.trace.Changes) {
			return v.story(), nil
		}
		if len(r.known) > r.bound {
			return v.story(), fmt.Errorf("no run was found among %d states: %w", r.bound, r.impossible())
		}
		stack = append(stack, r.next(v)...)
	}
	return r.furthest.story(), r.impossible()
}

// next are the ways on from one: those that cannot be seen first, so that the search takes the others before.
func (r *replay) next(v *way) []*way {
	var hidden, seen []*way
	for _, step := range slices.Backward(v.world.next()) {
		if step.Fault && step.What != r.act {
			continue
		}
		next := &way{before: v, world: v.world.after(step), step: step.String(), at: v.at}
		switch is := next.world.projection(r.operation); {
		case maps.Equal(is, r.states[v.at+1]):
			next.at++
			seen = r.add(seen, next)
		case maps.Equal(is, r.states[v.at]):
			hidden = r.add(hidden, next)
		}
	}
	return append(hidden, seen...)
}

func (r *replay) add(ways []*way, next *way) []*way {
	at := place{next.world.identity(), next.at}
	if r.known[at] {
		return ways
	}
	r.known[at] = true
	return append(ways, next)
}

// impossible names the change that no run could make, and what could have changed instead.
func (r *replay) impossible() error {
	v := r.furthest
	text := fmt.Sprintf("change %d is not possible in the model: %s\nThe model could have:", v.at+1, r.trace.Changes[v.at])
	for _, step := range v.world.steps() {
		text += "\n  " + step.String() + "\n" + difference(v.world.after(step).projection(r.operation), r.states[v.at])
	}
	return fmt.Errorf("%s", text)
}

// ReplayBound is how many states a replay visits at most.
const ReplayBound = 300_000
