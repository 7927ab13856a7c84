package statuspage

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/operation"
)

// maxTimeline limits the entries of a timeline.
const maxTimeline = 60

// entry is a line of the timeline.
type entry struct {
	At     *when
	Title  string
	Detail string
	Mood   mood
	Event  bool // a Kubernetes Event, which any user of the namespace may have written

	moment time.Time
}

// timeline collects what happened to a set.
type timeline struct {
	now     time.Time
	entries []entry
}

// timelineOf returns the times in the records and the Events, the latest first.
func timelineOf(set string, records operation.Records, events []corev1.Event, now time.Time) []entry {
	t := &timeline{now: now}
	for _, record := range records.All() {
		t.addHeader(record.Head())
	}
	if records.Resize != nil {
		for i := range records.Resize.Members {
			t.addMember(set, &records.Resize.Members[i])
		}
	}
	if s := records.Sleep; s != nil {
		t.add(s.PodsGoneAt, "sleep: every pod is gone", "", quiet)
		t.add(s.ReadyAt, "sleep: ready again", "", good)
	}
	for i := range events {
		t.addEvent(&events[i])
	}
	slices.SortStableFunc(t.entries, func(a, b entry) int {
		return cmp.Or(b.moment.Compare(a.moment), cmp.Compare(a.Title, b.Title))
	})
	return t.entries[:min(len(t.entries), maxTimeline)]
}

func (t *timeline) add(at *metav1.Time, title, detail string, m mood) {
	if p := past(at, t.now); p != nil {
		t.entries = append(t.entries, entry{At: p, Title: printable(title), Detail: printable(detail), Mood: m, moment: at.Time})
	}
}

// addHeader adds the begin and the end of an operation.
func (t *timeline) addHeader(h *api.Header) {
	words := operationWords(h.Kind, h.Purpose())
	t.add(&h.Started, words+" began", "operation "+h.Operation, busy)
	t.add(h.Finished, words+": "+string(h.Phase), joined(string(h.Reason), h.Message), moodOfPhase(h.Phase))
}

// addMember adds the stop and the start of a member.
func (t *timeline) addMember(set string, m *api.Member) {
	name := fmt.Sprintf("%s-%d", set, m.Ordinal)
	if !m.Locked {
		t.add(m.HeldAt, name+" was told to stop", "", busy)
	}
	t.add(m.StoppedAt, name+" has stopped", "", busy)
	t.add(m.ReleasedAt, name+" may start again", "", busy)
	t.add(m.ReadyAt, name+" is ready", "", good)
}

func (t *timeline) addEvent(e *corev1.Event) {
	m, at := quiet, metav1.NewTime(kube.HappenedAt(e))
	if e.Type == corev1.EventTypeWarning {
		m = bad
	}
	title := e.Reason
	if e.Count > 1 {
		title = fmt.Sprintf("%s, %d times", title, e.Count)
	}
	before := len(t.entries)
	t.add(&at, title, e.Message, m)
	if len(t.entries) > before {
		t.entries[before].Event = true
	}
}

// step is a phase on the way of an operation.
type step struct {
	Name  string
	State string // "done", "now" or "later"
	Mood  mood
}

// stepsOf returns the phases of a resize or rollback, in order, with the present one.
func stepsOf(record *api.Resize) []step {
	var steps []step
	path, passed := phasesOf(record), true
	for _, phase := range path {
		s := step{Name: string(phase), State: "done", Mood: good}
		switch {
		case phase == record.Phase:
			s.State, s.Mood, passed = "now", moodOfPhase(phase), false
		case !passed:
			s.State, s.Mood = "later", quiet
		}
		steps = append(steps, s)
	}
	return steps
}

// phasesOf returns the way of the operation: to success, or by way of the failed phase.
func phasesOf(record *api.Resize) []api.Phase {
	way := []api.Phase{api.Planned, api.Moving, api.Finishing, api.Succeeded}
	if len(record.Expansions) > 0 {
		way = append([]api.Phase{api.Expanding}, way...)
		if len(record.Members) == 0 && (record.Phase == api.Expanding || record.Phase.Terminal()) {
			way = []api.Phase{api.Expanding, api.Succeeded}
		}
	}
	switch record.Phase {
	case api.Refused:
		return []api.Phase{api.Refused}
	case api.Reverting, api.Failed:
		failed := slices.Index(way, record.FailedAt)
		if failed < 0 {
			failed = max(slices.Index(way, api.Moving), 0)
		}
		way = slices.Clone(way[:failed+1])
		if len(record.Members) > 0 {
			way = append(way, api.Reverting)
		}
		return append(way, api.Failed)
	}
	return way
}
