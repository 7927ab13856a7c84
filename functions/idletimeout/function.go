// Package idletimeout puts idle StatefulSets to sleep and wakes them when they are needed. To sleep, a set is scaled to
// zero. To wake, it gets its previous replica count back. The sets of a group sleep and wake together.
//
//	in    activity, wake, sleep (for a set or a group); owner.paused; StatefulSets that are not in the requested state; the tick
//	get   the StatefulSet and the other sets of its group, and their Scalers; list ControllerRevisions; for a set with the record of
//	      a sleep and without the record of a Scaler: list Scalers; for an activity probe: pods
//	do    patch StatefulSets: replicas, whenScaled, sleep, last-activity; patch Scaler: paused, replicas; create and delete the
//	      record of a sleep
//	out   sleep.decided, wake.decided, scaled, operation.failed
//	never puts a set to sleep while any of its inputs is unknown; never moves a time earlier; never scales a set
//	before pause-owner has the consent of its owner
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
	log      *slog.Logger
}

// New returns the function.
func New(client *kube.Client, settings api.Settings, log *slog.Logger) *Function {
	return &Function{client: client, apply: apply.New(client, api.IdleTimeout, log), prober: newProber(client, settings, log),
		settings: settings, log: log}
}

// Handle is safe to repeat, to reorder and to run concurrently. An event only triggers a reconcile, or reports an activity. An
// activity can only move the last activity later. If the API server rejects a write permanently, the sleep fails, or the start of the
// set is tried again later. The other members of the group continue.
func (f *Function) Handle(ctx context.Context, e event.Event) (*event.Event, error) {
	if namespace, group, ok := events.GroupOf(e); ok {
		name, err := f.representativeOf(ctx, namespace, group)
		if err != nil || name == "" {
			return nil, err
		}
		e = events.WithSet(e, events.Ref{Namespace: namespace, Name: name})
	}
	signal, answers := signalOf(e, time.Now()), map[string]ProbeResult{}
	rejected := rejections{sets: map[string]string{}, records: map[string]string{}}
	for {
		var latest plan.Plan
		answer, err := f.apply.Handle(ctx, e, func(ctx context.Context, ref events.Ref) (plan.Plan, error) {
			in, err := f.observe(ctx, ref, signal, answers)
			if err != nil {
				return plan.Plan{}, err
			}
			if in.mayStartSleep() {
				in.Trace = f.apply.Begin(ctx)
			}
			in.Rejected, in.RejectedRecords = rejected.sets, rejected.records
			latest = Decide(in)
			return latest, nil
		})
		if rejected.add(latest, err) {
			continue
		}
		if answer == nil && err == nil {
			err = rejected.deletion
		}
		return answer, err
	}
}

// rejections are the writes of one event that the API server permanently rejected.
type rejections struct {
	sets, records map[string]string // Rejected and RejectedRecords of Input
	// deletion is the error of a rejected deletion of a finished record. No set reports it, so it fails the event at the end.
	deletion error
}

// add stores the error of the plan. It returns false if the error is not the rejection of a write, or if a write for the same object
// was rejected before: then no other decision can follow.
func (r *rejections) add(p plan.Plan, err error) bool {
	failed := apply.FailedAction(err)
	if failed == nil || !fault.IsPermanent(err) {
		return false
	}
	name, isSet := setOf(p)
	if !isSet {
		name, r.deletion = failed.Name, err
	}
	why := r.sets
	if failed.Resource == plan.ControllerRevisions && failed.Verb == plan.VerbCreate {
		why = r.records
	}
	if why[name] != "" {
		return false
	}
	why[name] = fault.Text(err)
	return true
}

// setOf returns the set that the plan is for. Each plan patches its set, except the deletion of a finished record.
func setOf(p plan.Plan) (name string, ok bool) {
	for _, a := range p.Actions {
		if a.Resource == plan.StatefulSets {
			return a.Name, true
		}
	}
	return "", false
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
