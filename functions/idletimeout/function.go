// Package idletimeout decides when an idle StatefulSet falls asleep, and when it is awake. It writes that into the set's annotations.
// scale carries it out: it scales the set to zero and back. The sets of a group sleep and wake together.
//
//	in    activity, wake, sleep (for a set or a group); StatefulSets that are not in the requested state; the tick
//	get   the StatefulSet and the other sets of its group, and the Scalers that their records name; for an activity probe: pods
//	do    patch StatefulSets: sleep, last-activity; remove retry and abort
//	out   sleep.decided, wake.decided, scaled, operation.failed
//	never puts a set to sleep while any of its inputs is unknown; never moves a time earlier; never decides that a set is stopped before
//	pause-owner has the consent of its owner
package idletimeout

import (
	"context"
	"log/slog"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"drydock.dev/shared/api"
	"drydock.dev/shared/apply"
	"drydock.dev/shared/events"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/plan"
)

// Function is idle-timeout.
type Function struct {
	client   *kube.Client
	apply    *apply.Executor
	prober   *prober
	settings api.Settings
	log      *slog.Logger
}

// New returns the function.
func New(client *kube.Client, settings api.Settings, log *slog.Logger) *Function {
	return &Function{client: client, apply: apply.New(client, api.IdleTimeout, log), prober: newProber(client, settings, log),
		settings: settings, log: log}
}

// Handle is safe to repeat, to reorder and to run concurrently. An event only triggers a reconcile, or reports an activity. An activity can
// only move the last activity later. If the API server permanently rejects a write for another member of the group, the rest of the group
// continues without it.
func (f *Function) Handle(ctx context.Context, e event.Event) (*event.Event, error) {
	if namespace, group, ok := events.GroupOf(e); ok {
		name, err := f.representativeOf(ctx, namespace, group)
		if err != nil || name == "" {
			return nil, err
		}
		e = events.WithSet(e, events.Ref{Namespace: namespace, Name: name})
	}
	signal, answers := signalOf(e, time.Now()), map[string]ProbeResult{}
	return f.apply.HandleFailures(ctx, e, func(ctx context.Context, ref events.Ref, failures plan.Failures) (plan.Plan, error) {
		in, err := f.observe(ctx, ref, signal, answers)
		if err != nil {
			return plan.Plan{}, err
		}
		if in.mayStartSleep() {
			in.Trace = f.apply.Begin(ctx)
		}
		in.Failures = failures
		return Decide(in), nil
	})
}

// signalOf returns the signal that the event carries. A recent event counts as happening now, so one queued event can stand
// for others that were coalesced behind it. An older event keeps its own time: an event that was lost for a day wakes no set.
func signalOf(e event.Event, now time.Time) Signal {
	at := now
	if events.IsOld(e, now) {
		at = e.Time()
	}
	switch e.Type() {
	case events.Activity, events.Wake, events.Sleep, events.Retry:
		return Signal{Type: e.Type(), At: at}
	}
	return Signal{}
}
