package soak

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
)

// Outcome says how a step has ended.
type Outcome string

const (
	// Succeeded steps ended as expected.
	Succeeded Outcome = "succeeded"
	// RefusedAsExpected steps were refused for the expected reason.
	RefusedAsExpected Outcome = "refused"
	// AbortedThenSucceeded steps were aborted and retried.
	AbortedThenSucceeded Outcome = "aborted, then succeeded"
	// Done is the outcome of a fault.
	Done Outcome = "done"
	// Skipped is a fault in the quiet phase.
	Skipped Outcome = "skipped"
	// Lost steps did not end as expected.
	Lost Outcome = "LOST"
)

// Journal has one line for each step. It is safe for concurrent use.
type Journal struct {
	mu     sync.Mutex
	out    io.Writer
	lines  []string
	counts map[string]int // by action and outcome
	ended  map[Action]int // as expected
}

// NewJournal returns an empty journal. It also writes each line to out.
func NewJournal(out io.Writer) *Journal {
	return &Journal{out: out, counts: map[string]int{}, ended: map[Action]int{}}
}

// Note adds a step that began and ended at these times. details may be empty.
func (j *Journal) Note(step Step, began, ended time.Time, outcome Outcome, details string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	line := fmt.Sprintf("%s %s: %s in %s", began.UTC().Format("15:04:05.0"), step, outcome, ended.Sub(began).Round(100*time.Millisecond))
	if details != "" {
		line += ": " + details
	}
	j.add(line)
	j.counts[fmt.Sprintf("%s %s", step.Action, outcome)]++
	if outcome != Skipped && outcome != Lost {
		j.ended[step.Action]++
	}
}

// Say adds a line that belongs to no step.
func (j *Journal) Say(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.add(time.Now().UTC().Format("15:04:05.0") + " " + fmt.Sprintf(format, args...))
}

func (j *Journal) add(line string) {
	j.lines = append(j.lines, line)
	_, _ = io.WriteString(j.out, line+"\n") // the test prints the lines if it fails
}

// String returns all lines.
func (j *Journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Join(j.lines, "\n")
}

// Missing returns the actions that have not ended as expected even once.
func (j *Journal) Missing() []Action {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(Actions), func(a Action) bool { return j.ended[a] > 0 })
}

// Summary returns the number of steps by action and outcome.
func (j *Journal) Summary() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var all []string
	for _, key := range slices.Sorted(maps.Keys(j.counts)) {
		all = append(all, fmt.Sprintf("%4d %s", j.counts[key], key))
	}
	return strings.Join(all, "\n")
}

// overdue is how long after its retention an old volume may still have it.
const overdue = 30 * time.Second

// Remains returns what operations have left behind that they should have removed. sleeps are the operations of the sleeping sets, whose
// records stay until the sets wake.
func Remains(objects kit.Objects, sleeps []string, now time.Time) []string {
	left := slices.DeleteFunc(objects.Leftovers(), func(object string) bool {
		return slices.ContainsFunc(sleeps, func(operation string) bool { return object == "journal "+api.StopRecordName(operation) })
	})
	for _, volume := range objects.Volumes {
		text, retained := volume.Annotations[api.RetainedUntilAnnotation]
		if !retained {
			continue
		}
		if until, err := time.Parse(time.RFC3339, text); err != nil || now.After(until.Add(overdue)) {
			left = append(left, fmt.Sprintf("volume %s, retained until %s", volume.Name, text))
		}
	}
	return left
}
