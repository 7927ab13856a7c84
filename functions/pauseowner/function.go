// Package pauseowner keeps the operator of a StatefulSet from undoing an operation. Before the set is stopped, it pauses the custom
// resource that controls the set, or makes the operator stop the set. It resumes the resource as soon as the set has its replicas back, at
// the latest when the operation is over.
//
//	in    resize.detected, sleep.decided, wake.decided, scaled, restore.completed, operation.failed; StatefulSets with a
//	      planned operation or a refused sleep; records of paused owners whose operation is over; the tick
//	get   the StatefulSet, its owner, other sets of the owner, the Namespace; list ControllerRevisions, HorizontalPodAutoscalers
//	do    patch the StatefulSet: status, sleep; create and delete the record of a paused owner; patch the owner: pause it, restore its
//	      previous settings
//	out   owner.paused, owner.resumed
//	never pauses a resource that does not allow it; never starts an operation that an owner would undo; never changes a pause by
//	a user or another process; never leaves an owner paused without a record of it
package pauseowner

import (
	"cmp"
	"context"
	"log/slog"

	"github.com/cloudevents/sdk-go/v2/event"

	"drydock.dev/shared/api"
	"drydock.dev/shared/apply"
	"drydock.dev/shared/events"
	"drydock.dev/shared/fault"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/plan"
)

// Function is the CloudEvent function pause-owner.
type Function struct {
	client   *kube.Client
	apply    *apply.Executor
	settings api.Settings
	registry owners.Registry
	log      *slog.Logger
}

// New returns the function.
func New(client *kube.Client, settings api.Settings, registry owners.Registry, log *slog.Logger) *Function {
	return &Function{client: client, apply: apply.New(client, api.PauseOwner, log), settings: settings, registry: registry, log: log}
}

// Handle is safe to repeat, to reorder and to run twice at once. If the API server permanently rejects a write to the owner, the
// operation is given up, and not only the event. If it rejects a write of the list of turns, no limit applies, as without the right to
// read it: owners must be resumed, and resizes must end, nevertheless.
func (f *Function) Handle(ctx context.Context, e event.Event) (*event.Event, error) {
	answer, err := f.handle(ctx, e, true)
	if !concernsTurns(err) {
		return answer, err
	}
	f.log.WarnContext(ctx, "cannot write the list of turns, so movers have no limit", "error", err.Error())
	return f.handle(ctx, e, false)
}

// concernsTurns reports whether the API server permanently rejected a write of the list of turns.
func concernsTurns(err error) bool {
	a := apply.FailedAction(err)
	return a != nil && a.Resource == plan.ConfigMaps && fault.IsPermanent(err)
}

// handle does the work of Handle, with or without the list of turns. After each rejected write, it decides again.
func (f *Function) handle(ctx context.Context, e event.Event, withTurns bool) (*event.Event, error) {
	var rejected error
	writes := map[string]error{}
	for {
		answer, err := f.apply.Handle(ctx, e, func(ctx context.Context, ref events.Ref) (plan.Plan, error) {
			in, err := f.observe(ctx, ref)
			if err != nil {
				return plan.Plan{}, err
			}
			in.Rejected, in.RejectedWrites = cmp.Or(rejected, in.Rejected), writes
			if !withTurns {
				in.Turns = nil
			}
			if rejected != nil {
				in.NotForeseen = f.acceptsDryRun(ctx, in)
			}
			decided := Decide(in)
			if problems := in.problems(); problems != nil && decided.Kind != plan.KindDo {
				return plan.Plan{}, fault.Permanent(problems) // the user sees it as a dead letter on the set
			}
			return decided, nil
		})
		if !fault.IsPermanent(err) || concernsTurns(err) {
			return answer, err
		}
		key, report := "", false
		if failed := apply.FailedAction(err); failed != nil {
			key, report = writeKey(failed.Resource, failed.Name), rejected != nil && failed.Resource == plan.StatefulSets
		}
		if writes[key] != nil || report { // another decision would end in the same way
			return answer, err
		}
		rejected, writes[key] = err, err
	}
}
