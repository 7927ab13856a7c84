package deadletter

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/eventsource/sift"
	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/fault"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// testLetter returns the letter of a step that backup refused an hour ago.
func testLetter(change ...func(*api.UndeliveredEvent)) api.UndeliveredEvent {
	l := letterOf(undelivered(step(), map[string]any{"knativeerrordest": "http://backup", "knativeerrorcode": 422,
		"knativeerrordata": encoded("no room")}))
	l.Operation, l.Time = build.ID, metav1.NewTime(build.Now.Add(-time.Hour))
	for _, c := range change {
		c(&l)
	}
	return l
}

func listed(letters ...api.UndeliveredEvent) build.Option {
	return build.Annotation(api.DeadLettersAnnotation, api.EncodeDeadLetters(letters))
}

func letterWithCode(code int) api.UndeliveredEvent {
	return testLetter(func(l *api.UndeliveredEvent) { l.Code = code })
}

func letters(n int) []api.UndeliveredEvent {
	var letters []api.UndeliveredEvent
	for i := range n {
		letters = append(letters, letterWithCode(500+i))
	}
	return letters
}

// TestDecide: which events are listed, and how the failure is reported.
// Invariants: I7, I8.
func TestDecide(t *testing.T) {
	resent := func(l *api.UndeliveredEvent) { l.Resent = operation.Moment(build.Now) }
	worded := func(l *api.UndeliveredEvent) { l.ID, l.Message = "other", "no space" }
	rows := map[string]struct {
		set      []build.Option
		change   func(*api.UndeliveredEvent)
		rejected string
		list     string // the codes of the stored list
	}{
		"the first letter":                            {nil, nil, "", "422"},
		"another letter":                              {[]build.Option{listed(letterWithCode(503))}, nil, "", "503 422"},
		"the same letter again":                       {[]build.Option{listed(testLetter())}, nil, "", ""},
		"the same letter with another id and message": {[]build.Option{listed(testLetter(worded))}, nil, "", ""},
		"a letter that was sent again and failed again": {[]build.Option{listed(letterWithCode(503), testLetter(resent), letterWithCode(500))},
			nil, "", "503 422 500"},
		"the last letter that fits":       {[]build.Option{listed(letters(7)...)}, nil, "", "500 501 502 503 504 505 506 422"},
		"a full list keeps its letters":   {[]build.Option{listed(letters(8)...)}, nil, "", ""},
		"the same letter in a full list":  {[]build.Option{listed(append(letters(7), testLetter())...)}, nil, "", ""},
		"an unreadable list is kept":      {[]build.Option{build.Annotation(api.DeadLettersAnnotation, "{}")}, nil, "", ""},
		"a refused order":                 {nil, func(l *api.UndeliveredEvent) { l.Type, l.Code = events.Sleep, 403 }, "", ""},
		"an order that failed":            {nil, func(l *api.UndeliveredEvent) { l.Type, l.Code = events.Sleep, 500 }, "", ""},
		"an order without an answer":      {nil, func(l *api.UndeliveredEvent) { l.Type, l.Code = events.Retry, 0 }, "", ""},
		"a set that has not opted in":     {[]build.Option{build.Label(api.ManagedLabel, "")}, nil, "", ""},
		"a set that is being deleted":     {[]build.Option{build.Deleting()}, nil, "", ""},
		"the API server rejects the list": {nil, nil, "annotations too long", ""},
		"an event with an invalid id":     {nil, func(l *api.UndeliveredEvent) { l.ID = "<>" }, "", ""},
	}
	var cases []build.Case
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		row := rows[name]
		in := Input{Now: build.Now, Letter: testLetter(), Rejected: row.rejected, Set: build.Set("web", row.set...)}
		if row.change != nil {
			row.change(&in.Letter)
		}
		cases = append(cases, build.Case{Sentence: name, By: api.DeadLetter, World: build.World(in.Set),
			Facts: []string{"letter: " + describe(in.Letter)}, Decide: func() plan.Plan { return Decide(in) }})
		if got := storedCodes(t, Decide(in)); got != row.list {
			t.Errorf("%s: the list is %q, want %q", name, got, row.list)
		}
	}
	build.Golden(t, cases)
	if p := Decide(Input{Letter: testLetter()}); p.String() != "noop SetGone" {
		t.Errorf("without the set: %s", p)
	}
}

// storedCodes renders the codes of the list that the plan stores. A new letter must have the present time.
func storedCodes(t *testing.T, p plan.Plan) string {
	t.Helper()
	text := ""
	for _, a := range p.Actions {
		for _, op := range a.Ops {
			if op.Path != "/metadata/annotations/drydock.dev~1dead-letters" {
				continue
			}
			letters, err := api.LoadDeadLetters(build.Set("web", build.Annotation(api.DeadLettersAnnotation, op.Value.(string))))
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range letters {
				text += fmt.Sprintf(" %d", l.Code)
				if l.Code == 422 && (!l.Time.Time.Equal(build.Now) || l.Resent != nil) {
					t.Errorf("the new letter does not have the present time: %+v", l)
				}
			}
		}
	}
	return strings.TrimSpace(text)
}

// TestRepeatedFailuresOfOwnWritesEnd: each write of the list updates the set, and the event of that update may fail, too, in any function
// and with any answer. The writes end when the list is full.
// Invariants: I7.
func TestRepeatedFailuresOfOwnWritesEnd(t *testing.T) {
	set, writes := build.Set("web"), 0
	for i := range 1000 {
		in := Input{Now: build.Now.Add(time.Duration(i) * time.Second), Set: set, Letter: testLetter()}
		in.Letter.Code, in.Letter.ID = 400+i%100, fmt.Sprint(i)
		in.Letter.Destination = []string{"http://sift", "http://backup", "http://restore"}[i%3]
		for _, a := range Decide(in).Actions {
			if a.Verb == plan.VerbPatch {
				writes++
				build.With(set, build.Annotation(api.DeadLettersAnnotation, a.Ops[len(a.Ops)-1].Value.(string)))
			}
		}
	}
	if writes != api.MaxDeadLetters {
		t.Errorf("%d writes, want %d", writes, api.MaxDeadLetters)
	}
}

// TestSourceEventsHaveDistinctKeys: letters about two pods are two letters.
func TestSourceEventsHaveDistinctKeys(t *testing.T) {
	one, other := letterOf(source(t, events.KindPod, "a", nil)), letterOf(source(t, events.KindPod, "b", nil))
	if one.Key() == other.Key() {
		t.Error("letters about two pods have the same key")
	}
}

// TestForgedEventsMakeFewKubernetesEvents: a sender who knows the name of a set can let any number of different events fail.
func TestForgedEventsMakeFewKubernetesEvents(t *testing.T) {
	for name, row := range map[string]struct {
		set  []build.Option
		most int
	}{
		"opted in":     {nil, api.MaxDeadLetters + 1},
		"not opted in": {[]build.Option{build.Label(api.ManagedLabel, "")}, 0},
	} {
		set, different := build.Set("web", row.set...), map[plan.Note]bool{}
		for i := range 3 * api.MaxDeadLetters {
			letter := testLetter(func(l *api.UndeliveredEvent) {
				l.Code, l.Message, l.Operation = 500+i, fmt.Sprint(i), fmt.Sprintf("%012x", i)
			})
			for _, a := range Decide(Input{Now: build.Now, Set: set, Letter: letter, SetUID: "guessed"}).Actions {
				if a.Verb == plan.VerbEvent {
					different[a.Note] = true
				}
			}
			stored, _ := api.LoadDeadLetters(set)
			if len(stored) < api.MaxDeadLetters {
				set = build.With(set, listed(append(stored, letter)...))
			}
		}
		if len(different) > row.most {
			t.Errorf("%s: %d different Kubernetes Events", name, len(different))
		}
	}
}

// TestForgedSourceEventsWriteNothing: every client of a Broker without authentication can send a source event that names the set
// of any tenant, with data that is no object. sift refuses it for good, and it becomes a dead letter. As with refused orders, dead-letter
// must not write it to the set: eight such events fill the list, so that real letters are lost, and each makes a Warning Event.
func TestForgedSourceEventsWriteNothing(t *testing.T) {
	set, writes := build.Set("web"), 0
	for i := range api.MaxDeadLetters {
		e := event.New()
		e.SetType(events.SourceUpdate)
		e.SetSource("anyone")
		e.SetID(fmt.Sprint(i))
		e.SetExtension("kind", "StatefulSet")
		e.SetExtension("namespace", build.Namespace)
		e.SetExtension("name", "web")
		e.SetExtension("operation", fmt.Sprintf("%012x", i)) // part of the key of a letter
		_ = e.SetData(event.ApplicationJSON, []byte(`"no object"`))
		_, err := sift.New(nil, api.Settings{}, nil, slog.New(slog.DiscardHandler)).Handle(t.Context(), e)
		if !fault.IsPermanent(err) {
			t.Fatalf("sift does not refuse it for good: %v", err)
		}
		dead := undelivered(e, map[string]any{"knativeerrordest": "http://sift", "knativeerrorcode": fault.Status(err)})
		ref, err := setOf(dead)
		if err != nil {
			t.Fatal(err)
		}
		letter := letterOf(dead)
		letter.Operation = ref.Operation
		for _, a := range Decide(Input{Now: build.Now, Set: set, Letter: letter}).Actions {
			writes++
			if a.Verb == plan.VerbPatch {
				letters, _ := api.LoadDeadLetters(set)
				letter.Time.Time = build.Now
				set = build.With(set, listed(append(letters, letter)...))
			}
		}
	}
	letters, _ := api.LoadDeadLetters(set)
	if writes > 0 {
		t.Errorf("%d forged events of a sender without a token made %d writes, and fill the list: %d letters", api.MaxDeadLetters, writes,
			len(letters))
	}
}

// TestEventOfMoverFromBeforeTheRecreationIsListed: a resize that copies creates the set again, with another UID. The links of the movers
// and claims from before that have the former UID. The loss of an event about them must be recorded as any other.
func TestEventOfMoverFromBeforeTheRecreationIsListed(t *testing.T) {
	job := build.Job(0, 1) // its link names the set by the UID uid-web
	e := event.New()
	e.SetType(events.SourceUpdate)
	e.SetSource("source")
	e.SetID("1")
	e.SetExtension("kind", "Job")
	e.SetExtension("namespace", job.Namespace)
	e.SetExtension("name", job.Name)
	_ = e.SetData(event.ApplicationJSON, job)
	ref, err := setOf(e)
	if err != nil {
		t.Fatal(err)
	}
	set := build.Set("web", build.UID("uid-web-2"), build.Status(build.Operation(api.Moving, func(r *api.Resize) {
		r.Set.UID, r.Operation = "uid-web-2", api.OperationID("uid-web", r.Request, r.Attempt)
	})))
	for uid, s := range map[string]*Input{"same": {Set: build.Set("web")}, "recreated": {Set: set}} {
		s.Now, s.SetUID = build.Now, ref.UID
		s.Letter = letterOf(e)
		s.Letter.Operation = ref.Operation
		if p := Decide(*s); p.Reason != api.DeadLettered {
			t.Errorf("%s: %s", uid, p)
		}
	}
}

func TestEventWithoutSetIsAccepted(t *testing.T) {
	f := New(nil, slog.New(slog.DiscardHandler))
	if answer, err := f.Handle(t.Context(), someEvent("com.example.other")); answer != nil || err != nil {
		t.Errorf("answer %v, error %v: a dead letter that fails would be lost", answer, err)
	}
}
