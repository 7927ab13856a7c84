package deadletter

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"

	"drydock.dev/eventsource/sift"
	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/fault"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

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
