package model

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// Result describes an exploration.
type Result struct {
	States, Steps, Ends int
	// Complete means that every state within the scenario's bound of faults was visited.
	Complete bool
	// Problem is the first violated invariant, or empty. Story is the shortest path to it.
	Problem string
	Story   []string
}

func (r Result) String() string {
	how := "all"
	if !r.Complete {
		how = "the first"
	}
	return fmt.Sprintf("%s %d states, %d steps between them, %d ends", how, r.States, r.Steps, r.Ends)
}

// graph holds the visited states. They are numbered in the order of discovery, the nearest first.
type graph struct {
	numbers map[[16]byte]int32
	parent  []int32
	step    []uint16  // index of the step from the parent
	back    [][]int32 // predecessors by a step without a fault
	good    []int32   // valid end states
}

// Explore visits the reachable states, breadth first, until it has found the given number of them.
func Explore(s Scenario, states int) Result {
	g := &graph{numbers: map[[16]byte]int32{}}
	root := s.World()
	g.add(root, 0, 0)
	queue, result := []*World{root}, Result{}
	for at := int32(0); len(queue) > 0; at++ {
		w := queue[0]
		queue[0], queue = nil, queue[1:]
		if len(g.parent) >= states {
			return g.result(s, result, -1, "")
		}
		steps := w.next()
		if !slices.ContainsFunc(steps, func(s Step) bool { return !s.Fault }) {
			if problem := w.checkEnd(); problem != "" {
				return g.result(s, result, at, problem)
			}
			g.good = append(g.good, at)
		}
		for i, step := range steps {
			next := w.after(step)
			result.Steps++
			number, fresh := g.add(next, at, i)
			if !step.Fault {
				g.back[number] = append(g.back[number], at)
			}
			if !fresh {
				continue
			}
			if problem := next.check(); problem != "" {
				return g.result(s, result, number, problem)
			}
			queue = append(queue, next)
		}
	}
	result.Complete = true
	if lost := g.deadEnd(); lost >= 0 {
		return g.result(s, result, lost, "the operation can never end from this state")
	}
	return g.result(s, result, -1, "")
}

// next returns all possible steps, including faults.
func (w *World) next() []Step {
	steps := w.steps()
	if w.prompt && len(steps) == 1 && steps[0].prompt() {
		return steps
	}
	return append(slices.Clip(steps), w.faultSteps()...)
}

func (g *graph) add(w *World, parent int32, step int) (number int32, fresh bool) {
	id := w.identity()
	if number, known := g.numbers[id]; known {
		return number, false
	}
	number = int32(len(g.parent))
	g.numbers[id] = number
	g.parent, g.step, g.back = append(g.parent, parent), append(g.step, uint16(step)), append(g.back, nil)
	return number, true
}

// deadEnd returns the nearest state that cannot reach an end without further faults, or -1.
func (g *graph) deadEnd() int32 {
	ends := make([]bool, len(g.parent))
	queue := slices.Clone(g.good)
	for _, at := range queue {
		ends[at] = true
	}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for _, before := range g.back[at] {
			if !ends[before] {
				ends[before] = true
				queue = append(queue, before)
			}
		}
	}
	return int32(slices.Index(ends, false))
}

func (g *graph) result(s Scenario, r Result, at int32, problem string) Result {
	r.States, r.Ends, r.Problem = len(g.parent), len(g.good), problem
	if problem != "" {
		r.Story = g.story(s, at)
	}
	return r
}

// story returns the path to a state, reconstructed from the indexes of its steps.
func (g *graph) story(s Scenario, at int32) []string {
	var way []uint16
	for ; at != 0; at = g.parent[at] {
		way = append(way, g.step[at])
	}
	slices.Reverse(way)
	w, story := s.World(), []string(nil)
	for _, i := range way {
		step := w.next()[i]
		story = append(story, step.String())
		w = w.after(step)
	}
	return append(story, "=> "+w.summary())
}

// Walk takes random steps until none is left. The same seed takes the same path.
func Walk(s Scenario, seed uint64, longest int) (story []string, problem string) {
	r, w := rand.New(rand.NewPCG(seed, 0)), s.World()
	for range longest {
		steps := w.steps()
		if len(steps) == 0 {
			return append(story, "=> "+w.summary()), w.checkEnd()
		}
		step := steps[r.IntN(len(steps))]
		if faults := w.faultSteps(); len(faults) > 0 && r.IntN(30) == 0 {
			step = faults[r.IntN(len(faults))]
		}
		w = w.after(step)
		story = append(story, step.String())
		if problem := w.check(); problem != "" {
			return append(story, "=> "+w.summary()), problem
		}
	}
	return append(story, "=> "+w.summary()), "the run does not end"
}

// summary returns one line about the state of the operation.
func (w *World) summary() string {
	record := w.record()
	if record == nil {
		return "no record"
	}
	text := fmt.Sprintf("%s %s (%s)", record.Phase, record.Reason, record.Message)
	for _, m := range record.Members {
		text += fmt.Sprintf("; member %d %s attempt %d", m.Ordinal, m.Phase, m.Attempt)
	}
	return text
}
