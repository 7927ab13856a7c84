package soak

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/stage"
)

const (
	// maxPods limits the members that run after the steps so far. Movers, hooks and cleanup pods come in addition.
	maxPods = 30
	// fewPods is the number of members below which waking is more likely than sleeping.
	fewPods = 22
	// apart is the number of steps between two steps of one set, so that the second one rarely waits for the first.
	apart = 12
)

// Sequence makes a sequence of steps from a seed. It assumes that each step ends as expected, so the sequence depends on the seed only,
// not on time.
type Sequence struct {
	random *rand.Rand
	sets   []Set
	recent []string
	number int
	// faults are the next faults, and untilFault the number of steps before the next one.
	faults     []Action
	untilFault int
}

// NewSequence returns the sequence of the seed.
func NewSequence(seed uint64) *Sequence {
	s := &Sequence{random: rand.New(rand.NewPCG(seed, 0)), sets: NewSets()}
	s.untilFault = 12 // some operations should run
	return s
}

// Sets returns the states of all sets after the steps so far.
func (s *Sequence) Sets() []Set { return slices.Clone(s.sets) }

// Next returns the next step.
func (s *Sequence) Next() Step {
	s.number++
	if s.untilFault == 0 {
		return s.nextFault()
	}
	s.untilFault--
	step := s.choose(s.candidates())
	step.Number = s.number
	if step.Action == Refuse {
		step.Request, step.Method, step.Reason = s.refusal(step)
	}
	s.sets[s.index(step.After.Name)] = step.After
	if s.recent = append(s.recent, step.After.Name); len(s.recent) > apart {
		s.recent = s.recent[1:]
	}
	return step
}

func (s *Sequence) index(name string) int {
	return slices.IndexFunc(s.sets, func(set Set) bool { return set.Name == name })
}

// deck holds the faults that come in random order before the next deck.
var deck = []Action{Crash, Crash, Crash, Crash, RestartKubelet, RestartContainerd, RestartControllers, RestartAPIServer}

func (s *Sequence) nextFault() Step {
	if len(s.faults) == 0 {
		s.faults = slices.Clone(deck)
		s.random.Shuffle(len(s.faults), func(i, j int) { s.faults[i], s.faults[j] = s.faults[j], s.faults[i] })
	}
	fault := s.faults[0]
	s.faults, s.untilFault = s.faults[1:], 2+s.random.IntN(4)
	return Step{Number: s.number, Action: fault, Delay: s.delay(3000)}
}

func (s *Sequence) delay(milliseconds int) time.Duration {
	return time.Duration(1+s.random.IntN(milliseconds)) * time.Millisecond
}

// candidate is a possible next step with its weight.
type candidate struct {
	step   Step
	weight int
}

func (s *Sequence) choose(all []candidate) Step {
	total := 0
	for _, c := range all {
		total += c.weight
	}
	at := s.random.IntN(total)
	for _, c := range all {
		if at -= c.weight; at < 0 {
			return c.step
		}
	}
	panic("unreachable: the weights add up")
}

// candidates returns the possible steps of all sets that had no step recently.
func (s *Sequence) candidates() []candidate {
	pods := 0
	for _, set := range s.sets {
		pods += set.Running()
	}
	var all []candidate
	for _, set := range s.sets {
		if slices.Contains(s.recent, set.Name) {
			continue
		}
		for _, c := range s.stepsOf(set, pods) {
			if pods+c.step.After.Running()-set.Running() <= maxPods {
				all = append(all, c)
			}
		}
	}
	return all
}

// stepsOf returns the possible steps of a set. pods is the number of all members that run.
func (s *Sequence) stepsOf(set Set, pods int) []candidate {
	wake, sleep := 2, 3
	if pods < fewPods {
		wake, sleep = 8, 1
	}
	switch {
	case set.Asleep:
		return []candidate{{s.wake(set), wake}}
	case set.Kind == Scaled || set.Kind == Cleaned:
		return s.stepsOfScalable(set, wake, sleep)
	case set.Replicas == 0:
		return []candidate{{s.wake(set), wake}}
	}
	steps := []candidate{{s.sleep(set), sleep}, {s.resize(set), 6}, {Step{Action: Refuse, Before: set, After: set}, 1}}
	if set.Kind != Growing {
		steps = append(steps, candidate{s.abort(set), 2})
	}
	return steps
}

// stepsOfScalable returns the possible steps of a set whose count changes.
func (s *Sequence) stepsOfScalable(set Set, wake, sleep int) []candidate {
	var steps []candidate
	for count := range 4 {
		switch {
		case count > set.Replicas:
			steps = append(steps, candidate{scale(set, count), wake})
		case count < set.Replicas:
			steps = append(steps, candidate{scale(set, count), 3})
		}
	}
	if set.Replicas > 0 {
		steps = append(steps, candidate{s.sleep(set), sleep})
	}
	if set.Claims > 0 {
		steps = append(steps, candidate{s.resize(set), 4})
	}
	return steps
}

// wake wakes a set. Some sets have a request that waits for the wake-up.
func (s *Sequence) wake(set Set) Step {
	after := set
	after.Asleep = false
	if !set.Asleep {
		after.Replicas = set.FirstReplicas // it never ran
	}
	after.Claims = max(after.Claims, after.Replicas)
	step := Step{Action: Wake, Before: set, After: after}
	if set.Asleep && s.random.IntN(4) == 0 {
		return s.withRequest(step)
	}
	return step
}

func (s *Sequence) sleep(set Set) Step {
	after := set
	after.Asleep = true
	return Step{Action: Sleep, Before: set, After: after}
}

// resize resizes a set. The Scaler of some sets scales at the same time.
func (s *Sequence) resize(set Set) Step {
	step := s.withRequest(Step{Action: Resize, Before: set, After: set})
	if set.Kind == Scaled && s.random.IntN(3) == 0 {
		step.After.Replicas = (set.Replicas + 1 + s.random.IntN(3)) % 4
		step.After.Claims = max(set.Claims, step.After.Replicas)
	}
	return step
}

// abort resizes a set, and aborts it on the way.
func (s *Sequence) abort(set Set) Step {
	step := s.withRequest(Step{Action: Abort, Before: set, After: set})
	step.Delay = s.delay(6000)
	return step
}

// withRequest adds a request for another size, and sometimes another class, to a step.
func (s *Sequence) withRequest(step Step) Step {
	set := &step.After
	others := slices.DeleteFunc(slices.Clone(set.sizes()), func(size int) bool { return size == set.Size })
	set.Size = others[s.random.IntN(len(others))]
	step.Request, step.Method = fmt.Sprintf("data=%dMi", set.Size), api.MethodAuto
	if set.Kind != Growing && s.random.IntN(3) == 0 {
		set.Class = map[string]string{stage.Class: stage.OtherClass, stage.OtherClass: stage.Class}[set.Class]
		step.Request += "@" + set.Class
	}
	return step
}

func scale(set Set, count int) Step {
	after := set
	after.Replicas = count
	step := Step{Action: Scale, Before: set, After: after}
	if set.Kind == Cleaned && count < set.Replicas {
		step.Action, step.After.Claims = CleanUp, count
		return step
	}
	step.After.Claims = max(set.Claims, count)
	return step
}

// refusal returns a request that Drydock refuses. Each differs from the earlier ones, because an equal request is not judged again.
func (s *Sequence) refusal(step Step) (string, api.Method, api.Reason) {
	switch choice := s.random.IntN(3); {
	case choice == 0:
		return fmt.Sprintf("data=64Mi@missing-%d", step.Number), api.MethodAuto, api.UnknownClass
	case choice == 1 && step.Before.Kind != Growing:
		return fmt.Sprintf("data=%dKi", 100*1024+step.Number), api.MethodExpand, api.ExpandImpossible
	default:
		return fmt.Sprintf("data=%dx", step.Number), api.MethodAuto, api.RequestInvalid
	}
}

// Action is the kind of a step.
type Action string

// Actions on a set.
const (
	Wake    Action = "wake"    // also a resize that was requested while the set slept
	Sleep   Action = "sleep"   //
	Resize  Action = "resize"  // by copy or in place; also a scaling that waits for it
	Abort   Action = "abort"   // a resize that is aborted, then retried
	Refuse  Action = "refuse"  // a request that Drydock refuses
	Scale   Action = "scale"   // by the Scaler, or a scale-up without one
	CleanUp Action = "cleanup" // a scale-down, whose claims are cleaned up
)

// Faults, which have no set.
const (
	Crash              Action = "crash drydock"
	RestartKubelet     Action = "restart kubelet"
	RestartContainerd  Action = "restart containerd"
	RestartControllers Action = "restart kube-controller-manager"
	RestartAPIServer   Action = "restart kube-apiserver"
)

// Actions are all of them.
var Actions = []Action{Wake, Sleep, Resize, Abort, Refuse, Scale, CleanUp, Crash, RestartKubelet, RestartContainerd, RestartControllers,
	RestartAPIServer}

// IsFault reports whether the action is a fault of the machine or of a process.
func (a Action) IsFault() bool {
	return a == Crash || strings.HasPrefix(string(a), "restart ")
}

// Step is one element of a sequence.
type Step struct {
	Number int
	Action Action
	// Before and After are the states of the set. A fault has none.
	Before, After Set
	// Request is the value of the resize annotation, or empty.
	Request string
	// Method is the value of the annotation for the method.
	Method api.Method
	// Reason is the reason of an expected refusal.
	Reason api.Reason
	// Delay is the time before a fault, or before an abort.
	Delay time.Duration
}

// String returns the step in one line. It identifies the step: two sequences are equal if their lines are.
func (s Step) String() string {
	if s.Action.IsFault() {
		return fmt.Sprintf("#%d %s after %s", s.Number, s.Action, s.Delay)
	}
	parts := []string{fmt.Sprintf("#%d %s %s (%s)", s.Number, s.Before.Name, s.Action, s.Before.Kind)}
	if s.Request != "" {
		parts = append(parts, s.Request)
	}
	if s.Before.Running() != s.After.Running() {
		parts = append(parts, fmt.Sprintf("%d to %d members", s.Before.Running(), s.After.Running()))
	}
	if s.Reason != "" {
		parts = append(parts, "expects "+string(s.Reason))
	}
	if s.Delay > 0 {
		parts = append(parts, "after "+s.Delay.String())
	}
	return strings.Join(parts, ", ")
}

// Kind says how a set is operated.
type Kind string

const (
	// Whole sets stop all members together for a resize.
	Whole Kind = "whole"
	// Rolling sets stop one member at a time.
	Rolling Kind = "rolling"
	// Growing sets have volumes that grow in place.
	Growing Kind = "growing"
	// Scaled sets have a Scaler. Every second one has a hook.
	Scaled Kind = "scaled"
	// Cleaned sets have a cleanup pod template.
	Cleaned Kind = "cleaned"
)

// Set is the state of a set after the steps so far.
type Set struct {
	Name string
	Kind Kind
	// FirstReplicas is the number of members when the set wakes for the first time.
	FirstReplicas int
	// Replicas is the present count. A set that sleeps keeps the count that it gets back.
	Replicas int
	Asleep   bool
	// Claims is the number of ordinals with claims.
	Claims int
	// Size is the size of each volume in MiB, Class its StorageClass.
	Size  int
	Class string
	// Hook is true if the Scaler of the set runs a Job before each change.
	Hook bool
}

// Running returns the number of pods.
func (s Set) Running() int {
	if s.Asleep {
		return 0
	}
	return s.Replicas
}

// String returns the state in one line.
func (s Set) String() string {
	state := "awake"
	if s.Asleep {
		state = "asleep"
	}
	return fmt.Sprintf("%s %s %d replicas, %d claims of %dMi@%s", s.Name, state, s.Replicas, s.Claims, s.Size, s.Class)
}

// SetCount is the number of sets.
const SetCount = 50

// NewSets returns the sets before the first step. None has a pod.
func NewSets() []Set {
	// Ten sets in a row have these kinds.
	kinds := []Kind{Whole, Rolling, Growing, Scaled, Cleaned, Whole, Rolling, Rolling, Growing, Scaled}
	var sets []Set
	for i := range SetCount {
		s := Set{Name: fmt.Sprintf("s%02d", i), Kind: kinds[i%len(kinds)], FirstReplicas: 1 + i%3, Size: fixedSizes[0], Class: stage.Class}
		switch s.Kind {
		case Rolling:
			s.FirstReplicas = 2 + i%2
		case Growing:
			s.FirstReplicas, s.Size, s.Class = 1+i%2, growingSizes[0], stage.GrowingClass
		case Scaled:
			s.Hook = i%len(kinds) == 3
		}
		sets = append(sets, s)
	}
	return sets
}

// Sizes of volumes, in MiB. The smallest xfs is larger than the smallest ext4.
var (
	fixedSizes   = []int{24, 32, 40, 48, 64}
	growingSizes = []int{64, 80, 96, 112, 128}
)

// sizes returns the possible sizes of the set's volumes.
func (s Set) sizes() []int {
	if s.Kind == Growing {
		return growingSizes
	}
	return fixedSizes
}
