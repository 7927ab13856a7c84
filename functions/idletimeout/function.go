// Package idletimeout puts StatefulSets to sleep that nobody needs, and wakes those that somebody needs: it scales them to
// zero and back to what they were. Sets of a group sleep and wake together.
//
//	in    activity, wake, sleep (about a set or a group); owner.paused; StatefulSets whose wish and state differ; the tick
//	get   the StatefulSet, those of its group; list ControllerRevisions; for an activity probe: pods
//	do    patch StatefulSets: replicas, whenScaled, sleep, last-activity; create and delete the record of a sleep
//	out   sleep.decided, wake.decided, scaled, operation.failed
//	never puts a set to sleep of which anything is unknown; never moves a time earlier; never scales a set before
//	pause-owner has its owner's consent
package idletimeout

import (
	"context"
	"log/slog"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"drydock.dev/shared/api"
	"drydock.dev/shared/apply"
	"drydock.dev/shared/events"
	"drydock.dev/shared/fault"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/plan"
)

// Function is idle-timeout.
type Function struct {
	client   *kube.Client
	apply    *apply.Executor
	prober   *prober
	settings api.Settings
}

// New makes the function.
func New(client *kube.Client, settings api.Settings, log *slog.Logger) *Function {
	return &Function{client: client, apply: apply.New(client, api.IdleTimeout, log), prober: newProber(client, settings, log), settings: settings}
}

// Handle is safe to repeat, to reorder and to run twice at once: an event only makes it look, or tells of an activity, which
// moves a time later or nothing. A write that the API server refuses for good is a reason to give the sleep up.
func (f *Function) Handle(ctx context.Context, e event.Event) (*event.Event, error) {
	if namespace, group, ok := events.GroupOf(e); ok {
		name, err := f.firstOf(ctx, namespace, group)
		if err != nil || name == "" {
			return nil, err
		}
		e = events.About(e, events.Ref{Namespace: namespace, Name: name})
	}
	signal, answers := signalOf(e, time.Now()), map[string]Probed{}
	return f.apply.HandleDenied(ctx, e, func(ctx context.Context, ref events.Ref, denied error) (plan.Plan, error) {
		in, err := f.observe(ctx, ref, signal, answers)
		if err != nil {
			return plan.Plan{}, err
		}
		if in.mayBegin() {
			in.Trace = f.apply.Begin(ctx)
		}
		in.Rejected = fault.Text(denied)
		return Decide(in), nil
	})
}

// signalOf is what the event tells. An event that comes right away is of now, so that one which waited its turn speaks for
// those that came while it did; an old one is of its own time, so that what was lost for a day wakes nobody.
func signalOf(e event.Event, now time.Time) Signal {
	at := now
	if events.Old(e, now) {
		at = e.Time()
	}
	switch e.Type() {
	case events.Activity, events.Wake, events.Sleep, events.Retry:
		return Signal{Type: e.Type(), At: at}
	}
	return Signal{}
}
