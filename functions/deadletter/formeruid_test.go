package deadletter

import (
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/test/kit/build"
)

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
