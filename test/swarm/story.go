package swarm

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"drydock.dev/test/kit/apiserver"
)

// Shape is what does not change in a run.
type Shape struct {
	Sets          int  // 1 to 3
	Owner         int  // noOperator to lastOperator
	OwnsAll       bool // the operator has all sets, not only the first
	TwoOwners     bool // the first two sets have an operator each
	Group         bool
	Parallel      bool // podManagementPolicy
	Delete        bool // whenScaled
	Idle          bool
	Cleanup       bool
	CleanOnDelete bool
	CancelOnUp    bool
	Scaler, Hook  bool
}

// flags are the parts of a shape that are on or off, with their names in stories and how often random runs have them.
var flags = []struct {
	name   string
	of     func(*Shape) *bool
	chance float64
}{
	{"ownsall", func(s *Shape) *bool { return &s.OwnsAll }, .5},
	{"twoowners", func(s *Shape) *bool { return &s.TwoOwners }, .3},
	{"group", func(s *Shape) *bool { return &s.Group }, .5},
	{"parallel", func(s *Shape) *bool { return &s.Parallel }, .5},
	{"delete", func(s *Shape) *bool { return &s.Delete }, .15},
	{"idle", func(s *Shape) *bool { return &s.Idle }, .7},
	{"cleanup", func(s *Shape) *bool { return &s.Cleanup }, .7},
	{"cleanondelete", func(s *Shape) *bool { return &s.CleanOnDelete }, .1},
	{"cancelonup", func(s *Shape) *bool { return &s.CancelOnUp }, .3},
	{"scaler", func(s *Shape) *bool { return &s.Scaler }, .45},
	{"hook", func(s *Shape) *bool { return &s.Hook }, .5},
}

// Story is a run, what has to happen in it, and how it ends. Its text has a comment, the shape, the scenes, the end and the acts:
//
//	# what happens, in a sentence
//	world sets=1 owner=3 cleanup
//	shows: pause-owner(web): PATCH perconaxtradbclusters/own add /spec/pause true
//	ends with: in the end, set S has NO replicas: N, N ready, and its users want N
//	paused web
//	deliver x4
//	slow 0 1
//
// A line "shows" is a part of a line of the tale, without the numbers of processes: the scene that made the fault possible. Several scenes
// follow each other. Without it, a story would stay green when the world no longer comes to its scene. The line "ends with" has the kind of
// the problem. A story without it ends well. An act of a user names the set, and may have a number. An act of the environment has two
// numbers. Numbers of zero are left out at the end, and x4 repeats an act.
type Story struct {
	Shape
	Comment string
	Shows   []string
	Ends    string
	Acts    []act
}

var setsByOrder = []string{"web", "db", "mq"}

func (a act) String() string {
	first := strconv.Itoa(a.a)
	if _, isEnvironment := environment[a.do]; !isEnvironment {
		first = setsByOrder[a.a]
	}
	switch {
	case a.b != 0:
		return fmt.Sprintf("%s %s %d", a.do, first, a.b)
	case first != "0":
		return a.do + " " + first
	}
	return a.do
}

func parseAct(fields []string) (a act, times int, err error) {
	a.do, times = fields[0], 1
	if n := len(fields) - 1; n > 0 && strings.HasPrefix(fields[n], "x") {
		if times, err = strconv.Atoi(fields[n][1:]); err != nil {
			return a, 0, err
		}
		fields = fields[:n]
	}
	numbers := []*int{&a.a, &a.b}
	for i, field := range fields[1:] {
		if i == len(numbers) {
			return a, 0, errors.New("an act has at most two numbers")
		}
		if set := slices.Index(setsByOrder, field); i == 0 && set >= 0 {
			a.a = set
		} else if *numbers[i], err = strconv.Atoi(field); err != nil {
			return a, 0, err
		}
	}
	_, isEnvironment := environment[a.do]
	_, isUsers := users[a.do]
	if _, isOther := others[a.do]; !isEnvironment && !isUsers && !isOther {
		return a, 0, errors.New("there is no such act")
	}
	return a, times, nil
}

func (s Story) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\nworld sets=%d owner=%d", s.Comment, s.Sets, s.Owner)
	for _, f := range flags {
		if *f.of(&s.Shape) {
			b.WriteString(" " + f.name)
		}
	}
	b.WriteByte('\n')
	for _, scene := range s.Shows {
		fmt.Fprintf(&b, "shows: %s\n", scene)
	}
	if s.Ends != "" {
		fmt.Fprintf(&b, "ends with: %s\n", s.Ends)
	}
	for i := 0; i < len(s.Acts); {
		same := 1
		for i+same < len(s.Acts) && s.Acts[i+same] == s.Acts[i] {
			same++
		}
		b.WriteString(s.Acts[i].String())
		if same > 1 {
			fmt.Fprintf(&b, " x%d", same)
		}
		b.WriteByte('\n')
		i += same
	}
	return b.String()
}

// ParseStory reads the text of a story.
func ParseStory(text string) (Story, error) {
	var s Story
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		fields := strings.Fields(line)
		switch comment, isComment := strings.CutPrefix(line, "# "); {
		case isComment:
			s.Comment = comment
		case line == "":
		case fields[0] == "world":
			if err := s.Shape.parse(fields[1:]); err != nil {
				return s, fmt.Errorf("%q: %w", line, err)
			}
		case fields[0] == "shows:":
			s.Shows = append(s.Shows, strings.TrimPrefix(line, "shows: "))
		case fields[0] == "ends":
			s.Ends = strings.TrimPrefix(line, "ends with: ")
		default:
			a, times, err := parseAct(fields)
			if err != nil {
				return s, fmt.Errorf("act %q: %w", line, err)
			}
			s.Acts = append(s.Acts, slices.Repeat([]act{a}, times)...)
		}
	}
	if s.Sets == 0 {
		return s, errors.New(`the story has no line "world"`)
	}
	return s, nil
}

func (s *Shape) parse(fields []string) error {
	if _, err := fmt.Sscanf(strings.Join(fields, " "), "sets=%d owner=%d", &s.Sets, &s.Owner); err != nil {
		return err
	}
	for _, name := range fields[2:] {
		known := false
		for _, f := range flags {
			if f.name == name {
				*f.of(s), known = true, true
			}
		}
		if !known {
			return fmt.Errorf("there is no %q", name)
		}
	}
	return nil
}

// random returns the run of a seed. It uses a random part of the acts of users, because some acts keep others from mattering. A part of
// the runs is short and has few kinds of acts, one of which begins an operation: there, nothing hides what an act has lost.
func random(seed uint64, faults bool) Story {
	r := rand.New(rand.NewPCG(seed, 7))
	flip := func(chance float64) bool { return r.Float64() < chance }
	s := Story{Shape: Shape{Sets: 1 + r.IntN(3)}}
	for _, f := range flags {
		*f.of(&s.Shape) = flip(f.chance)
	}
	if flip(.7) {
		s.Owner = 1 + r.IntN(lastOperator)
	}
	if flip(.2) { // an operator with a group of sets
		s.Sets, s.OwnsAll, s.TwoOwners, s.Group = max(s.Sets, 2), true, false, true
	}
	environment, people := weightsOf(environment), map[string]int{}
	few := flip(.3)
	chance, length := .4, 60+r.IntN(90)
	if few {
		chance, length = .08, 8+r.IntN(25)
		begins := []string{"paused", "sleep", "resize", "scale"}[r.IntN(4)]
		people[begins] = users[begins].weight
	}
	for _, name := range slices.Sorted(maps.Keys(environment)) {
		if faults && slices.Contains([]string{"slow", "delay", "release", "refuse", "refuseset", "accept", "losereply", "operator", "sync",
			"blind"}, name) {
			environment[name] *= 3
		}
		switch {
		case few && name != "deliver" && name != "source" && flip(.6):
			delete(environment, name)
		case flip(.15):
			environment[name] /= 3
		}
	}
	for _, acts := range []map[string]int{weightsOf(users), weightsOf(others)} {
		for _, name := range slices.Sorted(maps.Keys(acts)) {
			if flip(chance) || few && (name == "owner" && s.Owner != noOperator || name == "scaler" && s.Scaler) {
				people[name] = acts[name]
			}
		}
	}
	all := maps.Clone(environment)
	maps.Copy(all, people)
	draw := func(weights map[string]int) act {
		a := act{choose(r, weights), r.IntN(12), r.IntN(12)}
		if _, isEnvironment := environment[a.do]; !isEnvironment {
			a.a %= s.Sets
		}
		return a
	}
	for len(s.Acts) < length {
		if len(people) == 0 || !flip(.08) {
			s.Acts = append(s.Acts, draw(all))
			continue
		}
		// A write is late, and the world changes before it arrives. Often a user has edited the same object.
		for range 1 + r.IntN(2) {
			s.Acts = append(s.Acts, draw(people))
		}
		slow, between := 1+r.IntN(len(slowResources)-1), people
		s.Acts = append(s.Acts, act{"delay", r.IntN(2), slow}, act{do: "rush"})
		if flip(.5) {
			s.Acts = append(s.Acts, draw(environment))
		}
		edits := maps.Clone(people)
		maps.DeleteFunc(edits, func(name string, _ int) bool { return !slices.Contains(slowResources[slow].edits, name) })
		if len(edits) > 0 && flip(.7) {
			between = edits
		}
		s.Acts = append(s.Acts, draw(between), act{do: "rush"})
	}
	return s
}

func weightsOf[Do any](acts map[string]weighted[Do]) map[string]int {
	weights := map[string]int{}
	for name, act := range acts {
		weights[name] = act.weight
	}
	return weights
}

// choose returns a random name, as often as the weights say.
func choose(r *rand.Rand, weights map[string]int) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(weights)) {
		all = append(all, slices.Repeat([]string{name}, weights[name])...)
	}
	return all[r.IntN(len(all))]
}

// run is how a story ended.
type run struct {
	problem string // the first fault that an oracle saw, or ""
	tale    []string
	covered map[string]int
}

// play plays the story in a bubble with its own clock.
func play(t *testing.T, admission apiserver.Admission, s Story) run {
	t.Helper()
	var result run
	synctest.Test(t, func(*testing.T) {
		var w *World
		defer func() {
			if panicked := recover(); panicked != nil {
				result = run{problem: fmt.Sprintf("the world panics: %v", panicked), tale: append(w.tale, string(debug.Stack()))}
			}
		}()
		w = newWorld(s.Shape, admission)
		for _, a := range s.Acts {
			if w.do(a); w.problem != "" {
				break
			}
		}
		if w.problem == "" {
			w.finish()
		}
		for len(w.held) > 0 {
			w.kill(0)
		}
		result = run{w.problem, w.tale, w.covered}
	})
	return result
}

// missing returns the first scene that the tale does not show after the scenes before it, or "".
func (s Story) missing(tale []string) string {
	for _, scene := range s.Shows {
		at := slices.IndexFunc(tale, func(line string) bool { return strings.Contains(numbers.ReplaceAllString(line, ""), scene) })
		if at < 0 {
			return scene
		}
		tale = tale[at+1:]
	}
	return ""
}

var (
	numbers    = regexp.MustCompile(`#[0-9]+`)
	particular = regexp.MustCompile(`#[0-9]+|\(.*?\)|map\[.*|\n(.|\n)*`)
	digits     = regexp.MustCompile(`[0-9]+`)
	setNames   = regexp.MustCompile(`\b(web|db|mq)\b`)
)

// kindOfProblem returns the kind of a problem. A story keeps it while it shrinks.
func kindOfProblem(problem string) string {
	return strings.TrimSpace(setNames.ReplaceAllString(digits.ReplaceAllString(particular.ReplaceAllString(problem, ""), "N"), "S"))
}

// longestShrink limits the real time of shrink: a run that ends with writes without end takes minutes.
const longestShrink = 10 * time.Minute

// shrink removes acts and parts of the shape while the problem stays, in at most the given number of runs.
func shrink(t *testing.T, admission apiserver.Admission, s Story, problem string, budget int) Story {
	t.Helper()
	end := time.Now().Add(longestShrink)
	fails := func(s Story) bool {
		if budget--; time.Now().After(end) {
			budget = 0
		}
		return budget > 0 && kindOfProblem(play(t, admission, s).problem) == kindOfProblem(problem)
	}
	for n := max(len(s.Acts)/2, 1); n > 0 && budget > 0; {
		removed := false
		for i := 0; i < len(s.Acts) && budget > 0; {
			try := s
			try.Acts = slices.Delete(slices.Clone(s.Acts), i, min(i+n, len(s.Acts)))
			if fails(try) {
				s, removed = try, true
			} else {
				i += n
			}
		}
		if n > 1 || !removed {
			n /= 2
		}
	}
	for _, simpler := range []func(*Shape){func(s *Shape) { s.Sets = 1 }, func(s *Shape) { s.Sets = min(s.Sets, 2) },
		func(s *Shape) { s.Owner = noOperator }} {
		try := s
		if simpler(&try.Shape); try.Shape != s.Shape && fails(try) {
			s = try
		}
	}
	for _, f := range flags {
		try := s
		if *f.of(&try.Shape) = false; try.Shape != s.Shape && fails(try) {
			s = try
		}
	}
	return s
}
