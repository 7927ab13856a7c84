package model

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
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

// identity returns a digest of the state. It ignores resourceVersions and incarnations that nothing refers to.
func (w *World) identity() [16]byte {
	var sum [16]byte
	for _, e := range w.objects {
		for i := range sum {
			sum[i] ^= e.digest[i]
		}
	}
	h := sha256.New()
	h.Write(sum[:])
	for _, uid := range slices.Sorted(maps.Keys(w.processes)) {
		fmt.Fprintf(h, "%s %+v\n", uid, w.processes[uid])
	}
	for _, name := range slices.Sorted(maps.Keys(w.contents)) {
		fmt.Fprintf(h, "%s %+v\n", name, w.contents[name])
	}
	for i := range w.functions {
		w.functions[i].identify(h, w)
	}
	fmt.Fprintln(h, w.budget, w.nodeSilent, w.faults, w.replicas, w.setDeleted, w.wroteLate, w.unprotectedDeletes, w.orderIsCurrent())
	_ = binary.Write(h, binary.LittleEndian, w.now.Unix())
	var id [16]byte
	copy(id[:], h.Sum(nil))
	return id
}

// orderIsCurrent reports whether the journal's manifest for the new set was made from the present version of the set.
func (w *World) orderIsCurrent() bool {
	for _, journal := range all[*appsv1.ControllerRevision](w, plan.ControllerRevisions) {
		if manifest, err := api.LoadManifest(journal); err == nil && manifest != nil && w.set() != nil {
			return manifest.ResourceVersion == w.set().ResourceVersion
		}
	}
	return false
}

// identify writes the distinguishing parts of the function's state: its pending writes, and whether their preconditions hold.
func (f *function) identify(h io.Writer, w *World) {
	fmt.Fprintln(h, f.refused)
	if f.early != nil {
		f.early.identify(h, w)
	}
	for _, a := range f.pending {
		e := w.objects[key{a.Resource, a.Name}]
		version, uid := "", ""
		if e != nil {
			version, uid = e.object.GetResourceVersion(), string(e.object.GetUID())
		}
		fmt.Fprintln(h, a.Verb, a.Resource, a.Name, a.ResourceVersion == version, string(a.UID) == uid)
		for _, op := range a.Ops {
			if op.Path == "/metadata/resourceVersion" {
				fmt.Fprintln(h, op.Value == version)
				continue
			}
			text, _ := json.Marshal(op)
			if a.Resource == plan.ControllerRevisions {
				text = versions.ReplaceAll(text, []byte("v"))
			}
			_, _ = h.Write(text)
		}
		if a.Object != nil {
			text, _ := json.Marshal(a.Object)
			_, _ = h.Write(text)
		}
	}
}

// identify writes the objects, and whether each has changed since it was read.
func (s *earlyRead) identify(h io.Writer, w *World) {
	fmt.Fprintln(h, s.kind)
	for _, k := range slices.SortedFunc(maps.Keys(s.objects), func(a, b key) int { return strings.Compare(a.name, b.name) }) {
		_, _ = h.Write(s.objects[k].digest[:])
		fmt.Fprintln(h, k.name, s.objects[k] == w.objects[k])
	}
}

// parts lists the parts of the platform that act without a fault.
var parts = []func(*World) []Step{
	invocations, removals, statefulSetController, volumeBinder, claimProtection, jobController, garbageCollector, scheduler, kubelet,
	applications, nodeReturns,
}

// steps returns the possible next steps without faults.
func (w *World) steps() []Step {
	var steps []Step
	for _, part := range parts {
		steps = append(steps, part(w)...)
	}
	if len(steps) == 0 {
		return w.lastResort()
	}
	if i := slices.IndexFunc(steps, Step.prompt); w.prompt && i >= 0 {
		return steps[i : i+1]
	}
	return steps
}

// prompt reports whether the step is the bookkeeping of a controller. On a prompt platform it precedes all other steps.
func (s Step) prompt() bool {
	switch s.Who {
	case apiServer, jobs, collector, schedulerName, binder, protector:
		return true
	case setController:
		return strings.HasPrefix(s.What, "reports")
	}
	return false
}

// lastResort returns the step for a state without other steps: a function's wait within its event ends, or the next deadline passes.
func (w *World) lastResort() []Step {
	if !w.hasWork(functionNames[restoreRole]) {
		return nil
	}
	if writes := writesOf(w.decide(w.observe(), restoreRole, 10*time.Second)); len(writes) > 0 {
		return []Step{{Who: "restore", What: "ends its wait", do: func(w *World) { w.functions[restoreRole].pending = writes }}}
	}
	next, found := w.deadline()
	if !found {
		return nil
	}
	return []Step{{Who: "clock", What: fmt.Sprintf("%s pass", next.Sub(w.now)), do: func(w *World) { w.now = next }}}
}

// deadline returns the next time at which a deadline of the operation expires.
func (w *World) deadline() (time.Time, bool) {
	record := w.record()
	if record == nil || !record.Active() {
		return time.Time{}, false
	}
	next := time.Time{}
	soonest := func(at time.Time) {
		if at = at.Add(time.Second); at.After(w.now) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	if record.Deadline != nil {
		soonest(record.Deadline.Time)
	}
	for _, m := range record.Members {
		if m.Deadline != nil {
			soonest(m.Deadline.Time)
		}
	}
	return next, !next.IsZero()
}
