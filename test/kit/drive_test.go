package kit

import (
	"context"
	"slices"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"

	"drydock.dev"
	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/telemetry"
)

// handlerFunc is a handler that passes each event to the func and never fails.
type handlerFunc func(event.Event)

func (f handlerFunc) Handle(_ context.Context, e event.Event) (*event.Event, error) {
	f(e)
	return nil, nil
}

// TestDriveDeliversToSubscribers: Drive delivers an event to the functions whose Triggers in deploy/ select it, and to no others. So
// test/api and test/sim call the same functions as a cluster.
func TestDriveDeliversToSubscribers(t *testing.T) {
	web := events.Ref{Namespace: "n", Name: "web", UID: "u", Operation: "o"}
	step := func(eventType, purpose string) event.Event {
		ref := web
		ref.Purpose = purpose
		return events.NewStep("kit", eventType, ref)
	}
	for name, row := range map[string]struct {
		event event.Event
		want  []api.Function
	}{
		"restore has changed a replica":  {step(events.MemberChanged, ""), []api.Function{api.Backup}},
		"the owner consents to a sleep":  {step(events.OwnerPaused, "sleep"), []api.Function{api.ScaleFunction}},
		"the owner consents to a resize": {step(events.OwnerPaused, "resize"), []api.Function{api.Backup}},
		"a change of two concerns":       {events.NewChanged(web, "s", api.Restore, api.CleanupPod), []api.Function{api.CleanupPod, api.Restore}},
		"no function handles a cleanup":  {step(events.CleanupCompleted, ""), nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []api.Function
			d := &Drive{Retries: 1, functions: map[api.Function]function.Handler{}, Telemetry: telemetry.Off()}
			for _, text := range function.Names() {
				d.functions[api.Function(text)] = handlerFunc(func(event.Event) { got = append(got, api.Function(text)) })
			}
			if err := d.Send(t.Context(), row.event); err != nil {
				t.Fatal(err)
			}
			if err := d.Drain(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, row.want) {
				t.Errorf("got %v, want %v", got, row.want)
			}
		})
	}
}
